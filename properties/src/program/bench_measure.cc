#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <thread>

#include "bench.h"
#include "norma/group.h"
#include "onednn.h"
#include "production.h"

namespace norma::program::benchmark {
namespace {

constexpr double least_measurement = 2e6;  // ns; what is quicker is repeated

// Memory that starts a cache line.
class Buffer {
 public:
  static constexpr std::align_val_t alignment{64};

  Buffer(Format format, std::size_t count)
      : format_(format), count_(count), data_(static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes(), 1), alignment))) {
    std::memset(data_.get(), 0xff, bytes());  // a NaN in every format
  }
  [[nodiscard]] std::byte* data() const { return data_.get(); }
  [[nodiscard]] std::size_t bytes() const { return count_ * static_cast<std::size_t>(info(format_).bytes()); }

  // Draws from N(mean, deviation²), or their magnitudes.
  void fill(std::mt19937_64& random, double mean, double deviation, bool positive = false) const {
    std::normal_distribution<double> normal(mean, deviation);
    for (std::size_t i = 0; i < count_; ++i) {
      const double value = positive ? std::abs(normal(random)) : normal(random);
      store(format_, round(Real(from_double(value)), format_).bits, at(i));
    }
  }
  [[nodiscard]] bool holds_nan() const {
    for (std::size_t i = 0; i < count_; ++i) {
      if (decode(format_, load(format_, at(i))).kind == Kind::nan) return true;
    }
    return false;
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, alignment); }
  };
  [[nodiscard]] std::byte* at(std::size_t i) const { return data_.get() + i * static_cast<std::size_t>(info(format_).bytes()); }

  Format format_;
  std::size_t count_;
  std::unique_ptr<std::byte, Free> data_;
};

// A problem's tensors, and the call that they make.
struct Tensors {
  Buffer x, y, gamma, beta, mean, variance;
  simd::Call call;

  Tensors(const Problem& p, std::mt19937_64& random)
      : Tensors(p, p.format == Format::f64 ? Format::f64 : Format::f32, static_cast<std::size_t>(p.rows() ? p.shape.back() : p.shape[1])) {
    x.fill(random, 0, 1);
    gamma.fill(random, 1, 0.1);
    beta.fill(random, 0, 0.1);
    mean.fill(random, 0, 0.1);
    variance.fill(random, 1, 0.1, true);
  }

 private:
  Tensors(const Problem& p, Format wide, std::size_t count)
      : x(p.format, p.elements()),
        y(p.format, p.elements()),
        gamma(wide, count),
        beta(wide, count),
        mean(wide, count),
        variance(wide, count) {
    call.op = p.op;
    call.epsilon = 1e-5;
    call.format = p.format;
    call.params = wide;
    call.statistics = wide;
    call.layout = p.layout;
    call.groups = p.groups;
    if (p.rows()) {
      call.cols = count;
      call.rows = count == 0 ? 0 : p.elements() / count;
    } else {
      call.cases = static_cast<std::size_t>(p.shape[0]);
      call.channels = count;
      call.positions = static_cast<std::size_t>(std::accumulate(p.shape.begin() + 2, p.shape.end(), std::int64_t{1}, std::multiplies<>()));
    }
    call.x = x.data();
    call.y = y.data();
    call.gamma = gamma.data();
    call.beta = beta.data();
    // Of a training step the statistics are results, for oneDNN too.
    const bool given = p.op == Op::batch_norm_inference;
    if (given) call.mean_in = mean.data();
    if (given) call.variance_in = variance.data();
    if (p.op == Op::batch_norm_training) call.mean = mean.data();
    if (p.op == Op::batch_norm_training) call.rstd = variance.data();
  }
};

class Normalize final : public Prepared {
 public:
  Normalize(const simd::Call& call, simd::Accuracy accuracy, simd::Executor* executor) : call_(call) {
    call_.accuracy = accuracy;
    call_.executor = executor;
  }
  void run() override { (void)simd::normalize(call_); }
  [[nodiscard]] Status check() const { return simd::normalize(call_); }

 private:
  simd::Call call_;
};

// The same bytes: x read, y written. In parts where each thread gets enough of them to be worth waking.
class Copy final : public Prepared {
 public:
  Copy(const Tensors& tensors, simd::Executor* executor)
      : from_(tensors.x.data()), to_(tensors.y.data()), bytes_(tensors.x.bytes()), executor_(executor) {
    constexpr std::size_t worth_it = std::size_t{1} << 16;
    parts_ = executor == nullptr || bytes_ < worth_it * executor->threads() ? 1 : executor->threads();
  }
  void run() override {
    if (parts_ == 1) return part(this, 0);
    executor_->run(parts_, &Copy::part, this);
  }

 private:
  static void part(void* context, std::size_t i) {
    const Copy& c = *static_cast<Copy*>(context);
    const std::size_t begin = c.bytes_ * i / c.parts_;
    std::memcpy(c.to_ + begin, c.from_ + begin, c.bytes_ * (i + 1) / c.parts_ - begin);
  }
  const std::byte* from_;
  std::byte* to_;
  std::size_t bytes_;
  simd::Executor* executor_;
  std::size_t parts_ = 1;
};

double now() {  // ns
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Variants that take turns.
class Race {
 public:
  Race(const Options& options, Problem problem, std::size_t threads, const Tensors& tensors, simd::Executor* executor)
      : measurement_{std::move(problem), threads, {}} {
    prepared_[copy] = std::make_unique<Copy>(tensors, executor);
    if (options.accuracy != "fast") {
      prepared_[correctly_rounded] = std::make_unique<Normalize>(tensors.call, simd::Accuracy::correctly_rounded, executor);
    }
    if (options.accuracy != "correctly_rounded")
      prepared_[fast] = std::make_unique<Normalize>(tensors.call, simd::Accuracy::fast, executor);
    if (!options.against.empty()) prepared_[onednn] = prepare_onednn(tensors.call, threads);
  }

  // Nothing is timed that does not do the work.
  [[nodiscard]] Status check(const Tensors& tensors) const {
    for (std::size_t v = copy + 1; v < variant_count; ++v) {
      if (!prepared_[v]) continue;
      std::memset(tensors.y.data(), 0xff, tensors.y.bytes());
      if (const auto* normalize = dynamic_cast<const Normalize*>(prepared_[v].get())) {
        if (Status s = normalize->check(); !s.ok()) return s;
      } else {
        prepared_[v]->run();
      }
      if (tensors.y.holds_nan()) {
        const Problem& p = measurement_.problem;
        return {Code::bad_parameter,
                fmt::format("{} does not compute {} in {} of {}", variant_names[v], info(p.op).name, info(p.format).name, p.title())};
      }
    }
    return {};
  }

  void round() {
    for (std::size_t i = 0; i < variant_count; ++i) {
      const std::size_t v = (i + turn_) % variant_count;
      if (!prepared_[v]) continue;
      measurement_.ns[v].push_back(measure(*prepared_[v], repeats_[v]));
      // Threads with nothing left to do spin, in the way of the next library's: those of oneTBB 0.2 ms, of OpenMP 8 ms of their own time.
      // On a busy machine, who has slept is let run for a while; so that it is the same for all, one thread sleeps too.
      std::this_thread::sleep_for(std::chrono::milliseconds(v == onednn && measurement_.threads > 1 ? 20 : 1));
    }
    ++turn_;
  }
  [[nodiscard]] Measurement result() && { return std::move(measurement_); }

 private:
  static double measure(Prepared& prepared, std::size_t& repeats) {
    prepared.run();  // wakes the threads, warms the caches
    for (;;) {
      const double start = now();
      for (std::size_t i = 0; i < repeats; ++i) prepared.run();
      const double ns = now() - start;
      if (ns >= least_measurement) return ns / static_cast<double>(repeats);
      repeats = std::max(repeats + 1, static_cast<std::size_t>(static_cast<double>(repeats) *
                                                               std::min(100.0, 1.2 * least_measurement / std::max(ns, 1.0))));
    }
  }

  Measurement measurement_;
  std::array<std::unique_ptr<Prepared>, variant_count> prepared_;
  std::array<std::size_t, variant_count> repeats_{1, 1, 1, 1};
  std::size_t turn_ = 0;
};

}  // namespace

Result<std::vector<Measurement>> measure(const Options& options, const std::vector<Problem>& problems,
                                         const std::vector<std::size_t>& threads, Progress& progress) {
  std::vector<Measurement> measurements;
  for (const Problem& problem : problems) {
    std::mt19937_64 random(1);
    const Tensors tensors(problem, random);
    for (const std::size_t count : threads) {
      std::unique_ptr<Threads> executor = count == 1 ? nullptr : std::make_unique<Threads>(count);
      Race race(options, problem, count, tensors, executor.get());
      if (Status s = race.check(tensors); !s.ok()) return s;
      for (int i = 0; i < options.rounds; ++i) {
        race.round();
        progress.advance(1);
      }
      measurements.push_back(std::move(race).result());
    }
  }
  return measurements;
}

}  // namespace norma::program::benchmark
