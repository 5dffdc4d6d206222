// Pages without access directly before and behind every tensor, and inputs that cannot be written: the first or the last byte of each
// tensor is the first or the last byte there is.
#include <sys/mman.h>
#include <unistd.h>

#include "values.h"
#include "watch.h"

namespace norma::simd {
namespace {

class Guarded {
 public:
  static constexpr std::size_t pages = 4;

  Guarded() : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    all_ = static_cast<std::byte*>(mmap(nullptr, (pages + 2) * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    allow(PROT_READ | PROT_WRITE);
  }
  ~Guarded() { munmap(all_, (pages + 2) * page_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  void allow(int protection) { ASSERT_EQ(mprotect(all_ + page_, pages * page_, protection), 0); }
  [[nodiscard]] std::byte* at(bool end, std::size_t bytes) {
    EXPECT_LE(bytes, pages * page_);
    return all_ + page_ + (end ? pages * page_ - bytes : 0);
  }
  void poison() { std::memset(all_ + page_, 0xA5, pages * page_); }
  [[nodiscard]] bool poisoned_outside(const std::byte* from, std::size_t bytes) const {
    for (const std::byte* p = all_ + page_; p < all_ + page_ * (pages + 1); ++p) {
      if (*p != Slab::canary && (p < from || p >= from + bytes)) return false;
    }
    return true;
  }

 private:
  std::size_t page_;
  std::byte* all_;
};

class SimdMemory : public ::testing::TestWithParam<Op> {
 protected:
  Watch watch_;
  std::vector<Guarded> in_ = std::vector<Guarded>(role_count);
  std::vector<Guarded> out_ = std::vector<Guarded>(role_count);

  void attempt(const Trial& t, bool end) {
    Call call = t.call;
    const auto bytes_of = [&](Role role) {
      return static_cast<std::size_t>(testing::size_of(shape_of(t.call, role)) * info(format_of(t.call, role)).bytes());
    };
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      if (!t.inputs[role]) continue;
      Guarded& memory = (t.wants(role) && role != Role::mean ? out_ : in_)[r];
      memory.allow(PROT_READ | PROT_WRITE);
      std::byte* const at = memory.at(end, bytes_of(role));
      if (!t.inputs[role]->bytes().empty()) std::memcpy(at, t.inputs[role]->bytes().data(), bytes_of(role));
      if (&memory == &in_[r]) memory.allow(PROT_READ);
      point(call, role, false, at, 0);
    }
    for (const std::int64_t target : usable_targets()) {
      const OnTarget scope(target);
      for (const Role role : t.outputs) {
        Guarded& memory = out_[static_cast<std::size_t>(role)];
        memory.poison();
        std::byte* const at = memory.at(end, bytes_of(role));
        if (t.inputs[role] && !t.inputs[role]->bytes().empty()) std::memcpy(at, t.inputs[role]->bytes().data(), bytes_of(role));
        point(call, role, true, at, 0);
      }
      const std::string what = std::string(hwy::TargetName(target)) + (end ? ", at the end, " : ", at the begin, ") + text(t);
      watch_.attempt(what);
      const Status status = normalize(call);
      ASSERT_TRUE(status.ok()) << status.message << "\n" << what;
      for (const Role role : t.outputs) {
        Guarded& memory = out_[static_cast<std::size_t>(role)];
        ASSERT_TRUE(memory.poisoned_outside(memory.at(end, bytes_of(role)), bytes_of(role))) << name(role) << "\n" << what;
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Ops, SimdMemory, ::testing::ValuesIn(offered_ops), testing::ByName());

TEST_P(SimdMemory, IsTheTensorsAlone) {
  const Op op = GetParam();
  Random random(20260204);
  for (const Accuracy accuracy : {Accuracy::correctly_rounded, Accuracy::fast}) {
    for (const Format format : offered_formats) {
      for (const Format params : {format, Format::f32}) {
        for (std::size_t n = 0; n <= 67; ++n) {
          Trial t;
          Call& c = t.call;
          c.op = op;
          c.accuracy = accuracy;
          c.format = format;
          c.params = params;
          c.statistics = random.one_in(2) ? format : Format::f32;
          c.epsilon = 1e-5;
          c.layout = random.one_in(2) ? Layout::channels_first : Layout::channels_last;
          c.rows = c.cases = static_cast<std::size_t>(random.between(1, 5));
          c.cols = n;
          c.channels = random.one_in(2) ? n : 3;
          c.positions = c.channels == n ? 3 : n;
          // Groups that are settled by every branch of a kernel: regular, shifted, flat and one by one.
          const std::size_t kinds[] = {0, 3, 5, 1, 16};
          t.inputs[Role::x] = filled_by_group(random, c, &x_families[kinds[n % 5]]);
          t.note = x_families[kinds[n % 5]].name;
          for (const Role role : {Role::gamma, Role::beta}) t.inputs[role] = filled(random, c, role, families::ordinary);
          if (info(op).given_statistics) {
            t.inputs[Role::mean] = filled(random, c, Role::mean, families::ordinary);
            t.inputs[Role::variance] = filled(random, c, Role::variance, families::ones);
          }
          if (by_row(c) && random.one_in(2)) {
            t.inputs[Role::residual] = filled_by_group(random, c, &x_families[0]);
            if (random.one_in(2)) t.outputs.push_back(Role::sum);
          }
          if (elements(c) > 0 && random.one_in(2)) {
            t.outputs.push_back(Role::rstd);
            if (info(op).outputs.contain(Role::mean)) t.outputs.push_back(Role::mean);
          }
          if (op == Op::batch_norm_training && elements(c) > 0) {
            if (c.cases * c.positions == 1) c.profile.running_variance = Estimator::biased;  // one value has no unbiased one
            for (const Role role : {Role::running_mean, Role::running_variance}) {
              t.inputs[role] = filled(random, c, role, families::ordinary);
              t.outputs.push_back(role);
            }
          }
          for (const bool end : {false, true}) ASSERT_NO_FATAL_FAILURE(attempt(t, end));
        }
      }
    }
  }
}

}  // namespace
}  // namespace norma::simd
