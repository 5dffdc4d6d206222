// What the bits do not depend on: threads, the order of tasks, the batch and the place in it, memory, and the floating-point environment
// of the caller, which is his again afterwards.
#include <atomic>
#include <cfenv>
#include <numeric>
#include <thread>

#include "values.h"
#include "watch.h"
#if HWY_ARCH_X86
#include <xmmintrin.h>
#endif

namespace norma::simd {
namespace {

// Runs tasks in a shuffled order on threads of its own.
class Shuffled : public Executor {
 public:
  Shuffled(
      std::size_t threads, std::uint64_t seed, std::function<void()> prepare = [] {})
      : threads_(threads), random_(seed), prepare_(std::move(prepare)) {}
  [[nodiscard]] std::size_t threads() const override { return threads_; }
  void run(std::size_t tasks, void (*task)(void*, std::size_t), void* context) override {
    std::vector<std::size_t> order(tasks);
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = tasks; i > 1; --i) std::swap(order[i - 1], order[random_.next() % i]);
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < threads_; ++i) {
      threads.emplace_back([&] {
        prepare_();
        for (std::size_t k = next++; k < tasks; k = next++) task(context, order[k]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    most = std::max(most, tasks);
  }
  std::size_t most = 0;  // tasks in a run

 private:
  std::size_t threads_;
  Random random_;
  std::function<void()> prepare_;
};

constexpr Accuracy accuracies[] = {Accuracy::correctly_rounded, Accuracy::fast};

class SimdInvariance : public ::testing::TestWithParam<Op> {};
INSTANTIATE_TEST_SUITE_P(Ops, SimdInvariance, ::testing::ValuesIn(offered_ops), testing::ByName());

Trial any_trial(Random& random, Op op, Accuracy accuracy) {
  const Format format = offered_formats[random.next() % 4];
  Trial t = random_trial(random, op, format, random.one_in(2) ? format : Format::f32);
  t.call.accuracy = accuracy;
  random_extras(random, t);
  return t;
}

TEST_P(SimdInvariance, Threads) {
  for (const Accuracy accuracy : accuracies) {
    Random random(20260205);
    const std::int64_t trials = testing::scaled(60);
    for (std::int64_t trial = 0; trial < trials; ++trial) {
      Trial t = any_trial(random, GetParam(), accuracy);
      for (const std::int64_t target : usable_targets()) {
        const OnTarget scope(target);
        ByRole<Tensor> alone, together;
        ASSERT_TRUE(run(t, alone));
        for (const std::size_t threads : {1, 3, 16}) {
          Shuffled executor(threads, static_cast<std::uint64_t>(trial));
          t.call.executor = &executor;
          ASSERT_TRUE(run(t, together));
          ASSERT_TRUE(same(t, together, alone)) << threads << " threads, " << hwy::TargetName(target);
        }
        t.call.executor = nullptr;
      }
    }
  }
}

// Large enough that the work is divided, which is seen.
TEST_P(SimdInvariance, ThreadsDivideLargeWork) {
  for (const Accuracy accuracy : accuracies) {
    for (const Layout layout : {Layout::channels_first, Layout::channels_last}) {
      Random random(20260206);
      Trial t;
      Call& c = t.call;
      c.op = GetParam();
      c.accuracy = accuracy;
      c.layout = layout;
      c.epsilon = 1e-5;
      c.rows = 300, c.cols = 1021;
      c.cases = 20, c.channels = 60, c.positions = 255;
      c.groups = c.op == Op::group_norm ? 15 : 1;
      t.inputs[Role::x] = filled_by_group(random, c, &x_families[0]);
      for (const Role role : {Role::gamma, Role::beta}) t.inputs[role] = filled(random, c, role, families::ordinary);
      if (info(c.op).given_statistics) {
        t.inputs[Role::mean] = filled(random, c, Role::mean, families::ordinary);
        t.inputs[Role::variance] = filled(random, c, Role::variance, families::ones);
      }
      t.outputs.push_back(Role::rstd);
      ByRole<Tensor> alone, together;
      ASSERT_TRUE(run(t, alone));
      if (accuracy == Accuracy::correctly_rounded) {
        ASSERT_TRUE(same(t, alone, expected(t)));
      }
      for (const std::size_t threads : {1, 2, 5, 32}) {
        Shuffled executor(threads, threads);
        Counters counters;
        c.executor = &executor;
        c.counters = &counters;
        ASSERT_TRUE(run(t, together));
        c.executor = nullptr;
        c.counters = nullptr;
        ASSERT_TRUE(same(t, together, alone)) << threads << " threads";
        if (threads > 1) {
          EXPECT_GT(executor.most, 1U);
        }
        if (accuracy == Accuracy::correctly_rounded) {
          EXPECT_EQ(counters.vector + counters.double_double + counters.exact, elements(c));
        }
      }
    }
  }
}

std::vector<Op> without_batch_in_the_group() {
  std::vector<Op> all(std::begin(offered_ops), std::end(offered_ops));
  std::erase(all, Op::batch_norm_training);
  return all;
}
class SimdBatch : public ::testing::TestWithParam<Op> {};
INSTANTIATE_TEST_SUITE_P(Ops, SimdBatch, ::testing::ValuesIn(without_batch_in_the_group()), testing::ByName());

// Any rows of a batch, alone or in any company, in any order.
TEST_P(SimdBatch, IsOfNoInfluence) {
  for (const Accuracy accuracy : accuracies) {
    Random random(20260207);
    const std::int64_t trials = testing::scaled(60);
    for (std::int64_t trial = 0; trial < trials; ++trial) {
      const Trial whole = any_trial(random, GetParam(), accuracy);
      const std::size_t count = by_row(whole.call) ? whole.call.rows : whole.call.cases;
      for (const std::int64_t target : usable_targets()) {
        const OnTarget scope(target);
        ByRole<Tensor> all;
        ASSERT_TRUE(run(whole, all));
        for (int attempt = 0; attempt < 4; ++attempt) {
          std::vector<std::size_t> chosen(static_cast<std::size_t>(attempt == 0 ? 1 : random.between(1, 9)));
          for (std::size_t& i : chosen) i = random.next() % count;
          Trial part = whole;
          (by_row(part.call) ? part.call.rows : part.call.cases) = chosen.size();
          const auto pick = [&](Role role, const Tensor& from) {
            Tensor to(from.format(), shape_of(part.call, role));
            const bool per_batch = large(role) || !(info(part.call.op).given_statistics || from.size() % count != 0);
            if (!per_batch) return from;
            const std::size_t each = from.size() / count;
            for (std::size_t i = 0; i < to.size(); ++i) to.set(i, from.bits(chosen[i / each] * each + i % each));
            return to;
          };
          ByRole<Tensor> want, got;
          for (const Role role : {Role::x, Role::residual}) {
            if (whole.inputs[role]) part.inputs[role] = pick(role, *whole.inputs[role]);
          }
          for (const Role role : whole.outputs) want[role] = pick(role, *all[role]);
          ASSERT_TRUE(run(part, got));
          ASSERT_TRUE(same(part, got, want)) << hwy::TargetName(target);
        }
      }
    }
  }
}

TEST_P(SimdInvariance, Memory) {
  for (const Accuracy accuracy : accuracies) {
    Random random(20260208);
    const std::int64_t trials = testing::scaled(60);
    for (std::int64_t trial = 0; trial < trials; ++trial) {
      Trial t = any_trial(random, GetParam(), accuracy);
      for (const std::int64_t target : usable_targets()) {
        const OnTarget scope(target);
        ByRole<Tensor> tidy, scattered;
        t.places = {};
        ASSERT_TRUE(run(t, tidy));
        for (const Role role : {Role::x, Role::residual, Role::gamma, Role::beta, Role::y, Role::sum, Role::mean, Role::rstd}) {
          t.places[role] = Place{random.next() % 64, static_cast<std::ptrdiff_t>(line_length(t.call) + random.next() % 9)};
          if (!large(role)) t.places[role]->stride = 0;
        }
        ASSERT_TRUE(run(t, scattered));
        ASSERT_TRUE(same(t, scattered, tidy)) << hwy::TargetName(target);
      }
    }
  }
}

#if HWY_ARCH_X86
struct Environment {
  const char* what;
  unsigned csr;
};
constexpr unsigned masked = 0x1F80;
constexpr Environment environments[] = {
    {"flush to zero, denormals are zero", masked | 0x8040},
    {"toward minus infinity", masked | 0x2000},
    {"toward plus infinity", masked | 0x4000},
    {"toward zero", masked | 0x6000},
    {"toward zero, flushing, with flags up", masked | 0x6000 | 0x8040 | 0x3F},
    {"no exception masked", 0},
    {"no exception masked, flushing, toward plus infinity", 0x8040 | 0x4000},
};

// Nothing that fails may happen under such an environment but the call itself.
TEST_P(SimdInvariance, Environment) {
  const unsigned usual = _mm_getcsr();
  Watch watch;
  for (const Accuracy accuracy : accuracies) {
    Random random(20260209);
    const std::int64_t trials = testing::scaled(60);
    for (std::int64_t trial = 0; trial < trials; ++trial) {
      Trial t = any_trial(random, GetParam(), accuracy);
      for (const std::int64_t target : usable_targets()) {
        const OnTarget scope(target);
        ByRole<Tensor> want, got;
        ASSERT_TRUE(run(t, want));
        for (const auto& environment : environments) {
          SCOPED_TRACE(environment.what);
          watch.attempt(std::string(hwy::TargetName(target)) + ", " + environment.what + ", " + text(t));
          Shuffled executor(2, 1, [&] { _mm_setcsr(environment.csr); });
          t.call.executor = trial % 4 == 0 ? &executor : nullptr;
          _mm_setcsr(environment.csr);
          const ::testing::AssertionResult result = run(t, got);
          const unsigned after = _mm_getcsr();
          _mm_setcsr(usual);
          t.call.executor = nullptr;
          ASSERT_TRUE(result) << hwy::TargetName(target);
          ASSERT_EQ(after, environment.csr) << hwy::TargetName(target) << "\n" << text(t);
          ASSERT_TRUE(same(t, got, want)) << hwy::TargetName(target);
        }
      }
    }
  }
}
#endif

TEST_P(SimdInvariance, RoundingDirection) {
  Random random(20260210);
  Trial t = any_trial(random, GetParam(), Accuracy::correctly_rounded);
  const ByRole<Tensor> want = expected(t);
  for (const int direction : {FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO, FE_TONEAREST}) {
    ByRole<Tensor> got;
    std::fesetround(direction);
    const ::testing::AssertionResult result = run(t, got);
    const int after = std::fegetround();
    std::fesetround(FE_TONEAREST);
    ASSERT_TRUE(result);
    EXPECT_EQ(after, direction);
    ASSERT_TRUE(same(t, got, want));
  }
}

TEST(SimdCounters, AreAddedToFromSeveralThreads) {
  Random random(20260211);
  Trial t = random_trial(random, Op::layer_norm, Format::f32, Format::f32);
  Counters counters;
  t.call.counters = &counters;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&t] {
      for (int k = 0; k < 50; ++k) {
        ByRole<Tensor> results;
        EXPECT_TRUE(run(t, results));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counters.vector + counters.double_double + counters.exact, 8 * 50 * elements(t.call));
}

// Whatever an executor says of itself.
TEST(SimdExecutor, AnyNumberOfThreadsWillDo) {
  class Claims final : public Executor {
   public:
    explicit Claims(std::size_t threads) : threads_(threads) {}
    [[nodiscard]] std::size_t threads() const override { return threads_; }
    void run(std::size_t tasks, void (*task)(void*, std::size_t), void* context) override {
      for (std::size_t i = 0; i < tasks; ++i) task(context, i);
    }

   private:
    std::size_t threads_;
  };
  Trial t;
  t.call.rows = t.call.cols = 512;
  t.call.epsilon = 1e-5;
  Random random(20261201);
  t.inputs[Role::x] = filled_by_group(random, t.call, &x_families[0]);
  const ByRole<Tensor> want = expected(t);
  for (const std::size_t threads : {std::size_t{0}, std::size_t{1} << 62, std::size_t{1} << 63, ~std::size_t{0}}) {
    Claims executor(threads);
    t.call.executor = &executor;
    ByRole<Tensor> got;
    ASSERT_TRUE(run(t, got));
    EXPECT_TRUE(same(t, got, want)) << threads;
  }
}

}  // namespace
}  // namespace norma::simd
