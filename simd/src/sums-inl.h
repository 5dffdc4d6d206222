// Σd and Σd², d = x − shift, over contiguous elements.

#if defined(NORMA_SIMD_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NORMA_SIMD_SUMS_INL_H_
#undef NORMA_SIMD_SUMS_INL_H_
#else
#define NORMA_SIMD_SUMS_INL_H_
#endif

#include <cmath>

#include "lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace norma::simd::HWY_NAMESPACE {
namespace {

#if HWY_TARGET != HWY_SCALAR

// What a sum is computed in.
struct InDoubles {
  using Tag = D;
  template <class T>
  static HWY_INLINE VD load(const T* from) {
    return load_doubles(from);
  }
};
struct InFloats {
  using Tag = F;
  template <class T>
  static HWY_INLINE VF load(const T* from) {
    return load_floats(from);
  }
};

template <class Lanes>
struct Sums {
  using V = hn::Vec<typename Lanes::Tag>;
  V sum, squares;

  HWY_INLINE Sums() : sum(hn::Zero(typename Lanes::Tag())), squares(hn::Zero(typename Lanes::Tag())) {}
  HWY_INLINE void add(const Sums& other) {
    sum = hn::Add(sum, other.sum);
    squares = hn::Add(squares, other.squares);
  }
};

// The tree of a summation: an accumulator takes eight vectors, four of them side by side make a leaf, leaves are added one after the other
// to a branch, and branches pairwise.
constexpr std::size_t leaf_vectors = 32;
constexpr std::size_t branch_leaves = 16;
constexpr std::size_t branch_vectors = leaf_vectors * branch_leaves;

// The most additions between an element and the finished sum of n: along an accumulator, over the four of them, over the leaves of a
// branch, over the tree of branches, one each for the single vectors and the tail, and over the lanes.
template <class Lanes>
double depth(std::size_t n) {
  const std::size_t lanes = hn::Lanes(typename Lanes::Tag());
  const std::size_t vectors = n / lanes;
  const auto leaves = static_cast<double>(HWY_MIN(branch_leaves, (vectors + leaf_vectors - 1) / leaf_vectors));
  const double branches = static_cast<double>(vectors) / static_cast<double>(branch_vectors);
  return 8 + 2 + leaves + std::ceil(std::log2(HWY_MAX(1.0, branches))) + 3 + 1 + std::log2(static_cast<double>(lanes));
}

template <class Lanes, bool kCentred, bool kShifted, class T>
HWY_INLINE void accumulate(const T* x, typename Sums<Lanes>::V shift, Sums<Lanes>& to) {
  const auto v = Lanes::load(x);
  const auto d = kShifted ? hn::Sub(v, shift) : v;
  if (kCentred) to.sum = hn::Add(to.sum, d);
  to.squares = hn::MulAdd(d, d, to.squares);
}

template <class Lanes, bool kCentred, bool kShifted, class T>
HWY_INLINE Sums<Lanes> sums_of_branch(const T* x, std::size_t vectors, typename Sums<Lanes>::V shift) {
  const std::size_t lanes = hn::Lanes(typename Lanes::Tag());
  Sums<Lanes> total;
  std::size_t i = 0;
  while (i + 4 <= vectors) {
    const std::size_t end = HWY_MIN(vectors, i + leaf_vectors);
    Sums<Lanes> a, b, c, d;
    for (; i + 4 <= end; i += 4) {
      accumulate<Lanes, kCentred, kShifted>(x + (i + 0) * lanes, shift, a);
      accumulate<Lanes, kCentred, kShifted>(x + (i + 1) * lanes, shift, b);
      accumulate<Lanes, kCentred, kShifted>(x + (i + 2) * lanes, shift, c);
      accumulate<Lanes, kCentred, kShifted>(x + (i + 3) * lanes, shift, d);
    }
    a.add(b);
    c.add(d);
    a.add(c);
    total.add(a);
  }
  for (; i < vectors; ++i) accumulate<Lanes, kCentred, kShifted>(x + i * lanes, shift, total);  // three at most
  return total;
}

template <class Lanes, bool kCentred, bool kShifted, class T>
HWY_NOINLINE Sums<Lanes> sums_of_tree(const T* x, std::size_t vectors, typename Sums<Lanes>::V shift) {
  if (vectors <= branch_vectors) return sums_of_branch<Lanes, kCentred, kShifted>(x, vectors, shift);
  std::size_t left = branch_vectors;  // whole branches to the left, so that the tree is one of branches
  while (left * 2 < vectors) left *= 2;
  Sums<Lanes> sums = sums_of_tree<Lanes, kCentred, kShifted>(x, left, shift);
  sums.add(sums_of_tree<Lanes, kCentred, kShifted>(x + left * hn::Lanes(typename Lanes::Tag()), vectors - left, shift));
  return sums;
}

template <class Lanes, bool kCentred, bool kShifted, class T>
HWY_INLINE Sums<Lanes> sums_of(const T* x, std::size_t n, typename Sums<Lanes>::V vshift) {
  const typename Lanes::Tag tag;
  const std::size_t lanes = hn::Lanes(tag);
  const std::size_t vectors = n / lanes;
  Sums<Lanes> sums = HWY_LIKELY(vectors <= branch_vectors) ? sums_of_branch<Lanes, kCentred, kShifted>(x, vectors, vshift)
                                                           : sums_of_tree<Lanes, kCentred, kShifted>(x, vectors, vshift);
  if (const std::size_t rest = n - vectors * lanes; rest != 0) {
    // The last whole vector without what has been counted, or a copy of less than a vector.
    T tail[HWY_MAX_BYTES / sizeof(float)] = {};
    if (vectors == 0) std::memcpy(tail, x, rest * sizeof(T));
    const auto v = Lanes::load(vectors == 0 ? tail : x + (n - lanes));
    const auto counted = vectors == 0 ? hn::Not(hn::FirstN(tag, rest)) : hn::FirstN(tag, lanes - rest);
    const auto d = hn::IfThenZeroElse(counted, kShifted ? hn::Sub(v, vshift) : v);
    if (kCentred) sums.sum = hn::Add(sums.sum, d);
    sums.squares = hn::MulAdd(d, d, sums.squares);
  }
  return sums;
}

// Of as many vectors as one has lanes the sum of each, in its lane.
template <std::size_t kCount = hn::MaxLanes(D())>
HWY_INLINE VD sums_of_lanes(const VD* v) {
  if constexpr (kCount == 1) {
    return v[0];
  } else {
    const VD a = sums_of_lanes<kCount / 2>(v);
    const VD b = sums_of_lanes<kCount / 2>(v + kCount / 2);
    return hn::Add(hn::ConcatEven(D(), b, a), hn::ConcatOdd(D(), b, a));
  }
}
// The same for `count`, a multiple of the lanes.
HWY_INLINE void store_sums_of_lanes(const VD* v, std::size_t count, double* to) {
  for (std::size_t r = 0; r < count; r += hn::Lanes(D())) hn::Store(sums_of_lanes(v + r), D(), to + r);
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace
}  // namespace norma::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
