// How fast the truth is. Elements per second of whole calls on one core, by format and size of a group; the slope of time against size; and
// rows that span every exponent of f64.
//
//   build/dev/bin/reference_bench --benchmark_repetitions=9 --benchmark_report_aggregates_only=true
#include <benchmark/benchmark.h>

#include <bit>
#include <random>
#include <vector>

#include "norma/reference.h"

namespace norma {
namespace {

// Rows of N(0, 1), gains and biases likewise, as layer_norm sees them in the wild.
class Rows {
 public:
  Rows(Format format, std::int64_t rows, std::int64_t n) : format_(format), rows_(rows), n_(n) {
    const auto bytes = static_cast<std::size_t>(info(format).bytes());
    for (std::vector<std::byte>* v : {&x_, &y_}) v->resize(static_cast<std::size_t>(rows * n) * bytes);
    for (std::vector<std::byte>* v : {&gamma_, &beta_}) v->resize(static_cast<std::size_t>(n) * bytes);
    std::mt19937_64 random(1);
    std::normal_distribution<double> normal;
    for (std::vector<std::byte>* v : {&x_, &gamma_, &beta_}) {
      for (std::size_t i = 0; i < v->size(); i += bytes) {
        const Real value{Dyadic(decode(Format::f64, std::bit_cast<Bits>(normal(random))))};
        store(format, round(value, format).bits, v->data() + i);
      }
    }
  }

  void set(std::int64_t i, double value) { store(Format::f64, std::bit_cast<Bits>(value), x_.data() + i * 8); }

  void run() {
    ByRole<ConstView> in;
    ByRole<View> out;
    in[Role::x] = ConstView{format_, x_.data(), {rows_, n_}, {}};
    in[Role::gamma] = ConstView{format_, gamma_.data(), {n_}, {}};
    in[Role::beta] = ConstView{format_, beta_.data(), {n_}, {}};
    out[Role::y] = View{format_, y_.data(), {rows_, n_}, {}};
    if (const Status s = compute({}, in, out); !s.ok()) throw std::runtime_error(s.message);
    benchmark::DoNotOptimize(y_.data());
  }

 private:
  Format format_;
  std::int64_t rows_;
  std::int64_t n_;
  std::vector<std::byte> x_, y_, gamma_, beta_;
};

void report(benchmark::State& state, std::int64_t elements) {
  state.counters["elements/s"] =
      benchmark::Counter(static_cast<double>(elements) * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

void layer_norm(benchmark::State& state, Format format) {
  const std::int64_t n = state.range(0);
  const std::int64_t rows = std::max<std::int64_t>(1, 65536 / n);
  Rows data(format, rows, n);
  for (auto _ : state) data.run();
  report(state, rows * n);
}
BENCHMARK_CAPTURE(layer_norm, f32, Format::f32)->Arg(768)->Arg(4096)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(layer_norm, f64, Format::f64)->Arg(768)->Arg(4096)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(layer_norm, f16, Format::f16)->Arg(768)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(layer_norm, bf16, Format::bf16)->Arg(768)->Unit(benchmark::kMillisecond);

// One row of n: the time is linear in n if the fitted complexity is N with a small RMS.
void one_row(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  Rows data(Format::f32, 1, n);
  for (auto _ : state) data.run();
  report(state, n);
  state.SetComplexityN(n);
}
BENCHMARK(one_row)->RangeMultiplier(4)->Range(16, 1 << 20)->Unit(benchmark::kMicrosecond)->Complexity();

// Every element a power of two of its own, from 2^-1074 to 2^1023: sums of 2098 bits, squares of 4196.
void all_exponents(benchmark::State& state) {
  constexpr std::int64_t n = 2098;
  Rows data(Format::f64, 1, n);
  for (std::int64_t i = 0; i < n; ++i) data.set(i, std::ldexp(i % 2 == 0 ? 1.0 : -1.0, static_cast<int>(i) - 1074));
  for (auto _ : state) data.run();
  report(state, n);
}
BENCHMARK(all_exponents)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace norma

BENCHMARK_MAIN();
