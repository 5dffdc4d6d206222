// Which elements are counted, how often, and in what order.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "faults.h"

namespace norma::properties {
namespace {

constexpr std::size_t lanes = 8;

template <class T>
std::vector<T> whole_vectors(std::vector<T> terms) {
  if (terms.size() > lanes) terms.resize(terms.size() / lanes * lanes);
  return terms;
}

template <class T>
struct TailDropped : Kernel<T> {
  using Kernel<T>::Kernel;
  T sum(const std::vector<T>& terms) override { return Kernel<T>::sum(whole_vectors(terms)); }
};

template <class T>
struct TailDroppedInVariance : Kernel<T> {
  using Kernel<T>::Kernel;
  T squares_about(const std::vector<T>& x, T mean) override { return Kernel<T>::squares_about(whole_vectors(x), mean); }
};

template <class T>
struct RemainderOverlaps : Kernel<T> {
  using Kernel<T>::Kernel;
  T sum(const std::vector<T>& terms) override {
    std::vector<T> counted = terms;
    const std::size_t whole = terms.size() / lanes * lanes;
    if (whole != 0 && whole != terms.size()) {
      for (std::size_t k = terms.size() - lanes; k < whole; ++k) counted.push_back(terms[k]);
    }
    return Kernel<T>::sum(counted);
  }
};

template <class T>
struct FirstElementSkipped : Kernel<T> {
  using Kernel<T>::Kernel;
  T sum(const std::vector<T>& terms) override {
    return terms.size() < 2 ? Kernel<T>::sum(terms) : Kernel<T>::sum({terms.begin() + 1, terms.end()});
  }
};

// The second stage is done by the lanes that the last group of threads has, and there may be more partial sums.
template <class T>
struct PartialSumsDropped : Kernel<T> {
  using Kernel<T>::Kernel;
  T sum(const std::vector<T>& terms) override {
    constexpr std::size_t threads = 32;
    std::vector<T> partial;
    for (std::size_t k = 0; k < terms.size(); k += threads) {
      const auto first = terms.begin() + static_cast<std::ptrdiff_t>(k);
      partial.push_back(Kernel<T>::sum({first, first + static_cast<std::ptrdiff_t>(std::min(threads, terms.size() - k))}));
    }
    partial.resize(std::min(partial.size(), (terms.size() - 1) % threads + 1));
    return Kernel<T>::sum(partial);
  }
};

template <class T>
struct OneBandWrong : Kernel<T> {
  using Kernel<T>::Kernel;
  T sum(const std::vector<T>& terms) override {
    const bool band = terms.size() > 64 && terms.size() <= 128;
    return band ? Kernel<T>::sum({terms.begin(), terms.begin() + 64}) : Kernel<T>::sum(terms);
  }
};

// The last iteration of a long sum adds to what the one before it has read.
template <class T>
struct AccumulatorStale : Kernel<T> {
  using Kernel<T>::Kernel;
  T sum(const std::vector<T>& terms) override {
    std::vector<T> seen = terms;
    if (seen.size() > 1024) seen.erase(seen.end() - 2);
    return Kernel<T>::sum(seen);
  }
};

template <class T>
struct PaddingCounted : Kernel<T> {
  using Kernel<T>::Kernel;
  T count(std::size_t n) const override { return static_cast<T>(n + (lanes - n % lanes) % lanes); }
};

// The lanes that pad the last vector hold zeros, whose deviation is −μ.
template <class T>
struct PaddingDeviates : Kernel<T> {
  using Kernel<T>::Kernel;
  T squares_about(const std::vector<T>& x, T mean) override {
    std::vector<T> padded = x;
    padded.resize((x.size() + lanes - 1) / lanes * lanes);
    return Kernel<T>::squares_about(padded, mean);
  }
};

template <class T>
struct CountInLowPrecision : Kernel<T> {
  using Kernel<T>::Kernel;
  T count(std::size_t n) const override {
    const Format format = this->format(Role::x);
    return info(format).width == 16 ? rounded(format, static_cast<T>(n)) : static_cast<T>(n);
  }
};

template <class T>
struct NotDividedByCount : Kernel<T> {
  using Kernel<T>::Kernel;
  T count(std::size_t n) const override { return this->op_.centred ? static_cast<T>(n) : 1; }
};

template <class T>
struct AnotherOrderEveryTime : Kernel<T> {
  using Kernel<T>::Kernel;
  T sum(const std::vector<T>& terms) override {
    static std::size_t calls = 0;
    std::vector<T> turned = terms;
    std::rotate(turned.begin(), turned.begin() + static_cast<std::ptrdiff_t>(++calls % terms.size()), turned.end());
    return Kernel<T>::sum(turned);
  }
};

template <class T>
struct OrderDependsOnRows : Kernel<T> {
  using Kernel<T>::Kernel;
  T sum(const std::vector<T>& terms) override {
    this->method_.lanes = this->shape().front() > 1 ? 16 : 1;
    return Kernel<T>::sum(terms);
  }
};

template <class T>
struct OrderDependsOnAddress : Kernel<T> {
  using Kernel<T>::Kernel;
  T sum(const std::vector<T>& terms) override {
    this->method_.lanes = std::bit_cast<std::uintptr_t>(this->call_.inputs[Role::x]->data) % 64 != 0 ? 8 : 1;
    return Kernel<T>::sum(terms);
  }
};

Status sums_by_thread(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs, int threads) {
  return run<Kernel>({spec, inputs, outputs}, {.lanes = std::bit_floor(static_cast<std::size_t>(threads))});
}

template <class T>
struct OrderDependsOnSign : Kernel<T> {
  using Kernel<T>::Kernel;
  T sum(const std::vector<T>& terms) override {
    std::vector<T> sorted = terms;
    std::stable_partition(sorted.begin(), sorted.end(), [](T term) { return term > 0; });
    return Kernel<T>::sum(sorted);
  }
};

// The elements after the last whole vector are standardized by a division.
template <class T>
struct TailDivides : Kernel<T> {
  using Kernel<T>::Kernel;
  void apply(const std::vector<T>& x, const Statistics<T>& s, const Places& group) override {
    const auto whole = static_cast<std::ptrdiff_t>(x.size() / lanes * lanes);
    Kernel<T>::apply({x.begin(), x.begin() + whole}, s, {group.begin(), group.begin() + whole});
    divides_ = true;
    Kernel<T>::apply({x.begin() + whole, x.end()}, s, {group.begin() + whole, group.end()});
    divides_ = false;
  }
  T standardize(T x, const Statistics<T>& s) const override {
    return divides_ ? this->deviation(x, s.mean) / (1 / s.rstd) : Kernel<T>::standardize(x, s);
  }
  bool divides_ = false;
};

constexpr Mutant table[] = {
    {"tail-dropped", "elements after the last whole vector of 8 are in no sum", "tail-element-loss", "ROCm/aiter#5044", "tails",
     faulty<TailDropped>},
    {"tail-dropped-in-variance", "the same, in the sum of squares only", "tail-element-loss", "ROCm/aiter#5044", "tails",
     faulty<TailDroppedInVariance>},
    {"remainder-overlaps", "the last vector of 8 counts elements that were counted before", "tail-element-loss", "ROCm/rocm-libraries#9030",
     "tails", faulty<RemainderOverlaps>},
    {"first-element-skipped", "sums start at the second element", "", "", "permutation_equivariance", faulty<FirstElementSkipped>},
    {"partial-sums-dropped", "of the sums of 32 elements, as many are added as the last has elements", "partial-reduction-drop",
     "ggml-org/llama.cpp#26708", "tails", faulty<PartialSumsDropped>},
    {"size-band-wrong", "of 65 to 128 elements, the first 64 are summed", "size-band-dispatch", "lablup/mlxcel#1033", "tails",
     faulty<OneBandWrong>},
    {"accumulator-stale", "of more than 1024 elements, the last but one is in no sum", "size-band-dispatch", "vllm-project/vllm#44692",
     "count_exact", faulty<AccumulatorStale>},
    {"padding-counted", "n counts the lanes that pad the last vector of 8", "", "", "tails", faulty<PaddingCounted>},
    {"padding-deviates", "the zeros that pad the last vector of 8 are in the sum of squared deviations", "", "", "tails",
     faulty<PaddingDeviates>},
    {"count-in-low-precision", "n rounded to the format of x: 2049 is 2048 in f16, 257 is 256 in bf16", "count-in-lowprec",
     "pytorch/executorch#16727", "count_exact", faulty<CountInLowPrecision>},
    {"not-divided-by-count", "rms_norm takes the sum of squares for their mean", "", "", "repetition", faulty<NotDividedByCount>},
    {"another-order-every-time", "sums start at another element in every call", "nondeterminism", "karpathy/llm.c#445", "deterministic",
     faulty<AnotherOrderEveryTime>},
    {"order-depends-on-rows", "partial sums where there is more than one row, none where there is one", "batch-variance",
     "vllm-project/vllm#48997", "batch_independence", faulty<OrderDependsOnRows>},
    {"order-depends-on-sign", "positive terms are added before the others", "", "", "odd_symmetry", faulty<OrderDependsOnSign>},
    {"tail-divides", "elements after the last whole vector of 8 are divided by the root, the others multiplied by its reciprocal", "", "",
     "order_preserved", faulty<TailDivides>},
    {"order-depends-on-address", "partial sums where x does not start at a multiple of 64 bytes", "", "", "alignment",
     faulty<OrderDependsOnAddress>},
    {"order-depends-on-threads", "every thread sums its part of a row", "", "", "threads", faulty<Kernel>, sums_by_thread},
};

}  // namespace

const std::span<const Mutant> faults_of_counts = table;

}  // namespace norma::properties
