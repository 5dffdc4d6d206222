// Memory that is written and should not be, or is not and should be.
#include "faults.h"

namespace norma::properties {
namespace {

template <class T>
struct WritesPastEnd : Kernel<T> {
  using Kernel<T>::Kernel;
  void finish() override {
    const std::int64_t n = this->size(Role::y);
    if (n != 0) this->store_at(Role::y, this->offset(Role::y, n - 1) + 1, 0);
  }
};

template <class T>
struct WritesBeforeStart : Kernel<T> {
  using Kernel<T>::Kernel;
  void finish() override {
    if (this->size(Role::y) != 0) this->store_at(Role::y, -1, 0);
  }
};

// A row that comes after writes its elements over the surplus.
template <class T>
struct StoresWholeVectors : Kernel<T> {
  using Kernel<T>::Kernel;
  void apply(const std::vector<T>& x, const Statistics<T>& s, const Places& group) override {
    Kernel<T>::apply(x, s, group);
    if (!by_row(this->spec())) return;
    const std::int64_t end = this->offset(Role::y, group.back().element) + 1;
    for (std::size_t k = group.size(), surplus = 0; k % 8 != 0; ++k, ++surplus) {
      this->store_at(Role::y, end + static_cast<std::int64_t>(surplus), 0);
    }
  }
};

template <class T>
struct WritesIntoX : Kernel<T> {
  using Kernel<T>::Kernel;
  void finish() override {
    const ConstView& x = *this->call_.inputs[Role::x];
    if (this->size(Role::x) != 0) store(x.format, load(x.format, x.data) ^ 1, const_cast<std::byte*>(x.data));
  }
};

template <class T>
struct LastUnwritten : Kernel<T> {
  using Kernel<T>::Kernel;
  void apply(const std::vector<T>& x, const Statistics<T>& s, const Places& group) override {
    Kernel<T>::apply(x, s, {group.begin(), group.end() - 1});
  }
};

template <class T>
struct ReadsAgain : Kernel<T> {
  using Kernel<T>::Kernel;
  void apply(const std::vector<T>& x, const Statistics<T>& s, const Places& group) override {
    Kernel<T>::apply(x, s, group);
    Kernel<T>::apply(this->gather(group), s, group);
  }
};

template <class T>
struct CrashesForOne : Kernel<T> {
  using Kernel<T>::Kernel;
  void group(const Places& group) override {
    if (group.size() == 1) __builtin_trap();
    Kernel<T>::group(group);
  }
};

// As an integer division by the number of rows does.
template <class T>
struct CrashesForNone : Kernel<T> {
  using Kernel<T>::Kernel;
  void finish() override {
    if (this->groups_.empty()) __builtin_trap();
  }
};

constexpr Mutant table[] = {
    {"writes-past-end", "one element after the last of y is written", "", "", "no_overrun", faulty<WritesPastEnd>},
    {"writes-before-start", "one element before the first of y is written", "", "", "no_overrun", faulty<WritesBeforeStart>},
    {"stores-whole-vectors", "rows are written up to the next multiple of 8", "tail-element-loss", "ROCm/aiter#5044", "no_overrun",
     faulty<StoresWholeVectors>},
    {"writes-into-x", "a bit of the first element of x is flipped", "", "", "input_unchanged", faulty<WritesIntoX>},
    {"last-unwritten", "the last element of a group of y is not written", "", "", "no_overrun", faulty<LastUnwritten>},
    {"reads-x-again", "x is read again after y was written, which may be where x was", "", "", "in_place", faulty<ReadsAgain>},
    {"crashes-for-one", "a group of one element ends the process", "", "", "batch_of_one", faulty<CrashesForOne>},
    {"crashes-for-none", "an empty batch ends the process: a division by the number of rows", "empty-input", "tensorflow/tensorflow#46366",
     "empty_and_single", faulty<CrashesForNone>},
};

}  // namespace

const std::span<const Mutant> faults_of_memory = table;

}  // namespace norma::properties
