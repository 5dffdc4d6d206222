#include <algorithm>
#include <cmath>

#include "chance.h"
#include "norma/generate.h"

namespace norma::properties {
namespace {

using rc::Random;

Bits magnitude(Random& random, Bits low, Bits high) { return low + random.next() % (high - low + 1); }
Bits with_sign(Random& random, Format format, Bits bits) { return one_in(random, 2) ? bits | info(format).sign_bit() : bits; }
Bits binade(Format format) { return Bits{1} << info(format).fraction_bits(); }
Bits any_finite(Random& random, Format format) { return with_sign(random, format, magnitude(random, 0, info(format).max_finite())); }
// An exponent whose square, and sixteen bits more, are far from the ends of the format.
int quiet_exponent(Random& random, Format format) {
  const int most = std::min(40, (info(format).max_exponent() - 8) / 3);
  return static_cast<int>(between(random, -most, most));
}

// Of either sign, far from the ends of the format.
double moderate(Random& random, Format format) {
  const int exponent = quiet_exponent(random, format);
  const double size = std::ldexp(1 + uniform(random), exponent);
  return one_in(random, 2) ? size : -size;
}

void ordinary(Random& random, Format format, std::vector<Bits>& to) {
  const double scale = std::ldexp(1.0, one_in(random, 2) ? 0 : quiet_exponent(random, format));
  for (Bits& x : to) x = nearest_bits(format, bell(random) * scale);
}
void large_mean(Random& random, Format format, std::vector<Bits>& to) {
  const double mean = moderate(random, format);
  const double spread = std::ldexp(mean, -static_cast<int>(between(random, 0, info(format).precision - 2)));
  for (Bits& x : to) x = nearest_bits(format, mean + spread * bell(random));
}
void flat(Random& random, Format format, std::vector<Bits>& to) {
  std::fill(to.begin(), to.end(), nearest_bits(format, moderate(random, format)));
}
void nearly_flat(Random& random, Format format, std::vector<Bits>& to) {
  flat(random, format, to);
  if (!to.empty()) to[random.next() % to.size()] ^= 1;
}
void two_neighbours(Random& random, Format format, std::vector<Bits>& to) {
  flat(random, format, to);
  for (Bits& x : to) x ^= random.next() & 1;
}
void outlier(Random& random, Format format, std::vector<Bits>& to) {
  ordinary(random, format, to);
  const int e = std::min(40, (info(format).max_exponent() - 8) / 2);
  if (!to.empty()) to[random.next() % to.size()] = nearest_bits(format, std::ldexp(1 + uniform(random), e));
}
void all_exponents(Random& random, Format format, std::vector<Bits>& to) {
  for (Bits& x : to) x = any_finite(random, format);
}
void subnormal(Random& random, Format format, std::vector<Bits>& to) {
  for (Bits& x : to) x = with_sign(random, format, magnitude(random, 0, binade(format) - 1));
}
void near_overflow(Random& random, Format format, std::vector<Bits>& to) {  // of x²
  for (Bits& x : to) {
    const int e = info(format).max_exponent() / 2 + static_cast<int>(between(random, -2, 4));
    x = nearest_bits(format, std::ldexp(bell(random), e));
  }
}
void largest(Random& random, Format format, std::vector<Bits>& to) {
  const Bits most = info(format).max_finite();
  for (Bits& x : to) x = with_sign(random, format, magnitude(random, most - binade(format), most));
}
void signed_zeros(Random& random, Format format, std::vector<Bits>& to) {
  for (Bits& x : to) x = with_sign(random, format, 0);
}
void sparse(Random& random, Format format, std::vector<Bits>& to) {
  ordinary(random, format, to);
  for (Bits& x : to) x = one_in(random, 2) ? with_sign(random, format, 0) : x;
}
void small_integers(Random& random, Format format, std::vector<Bits>& to) {
  for (Bits& x : to) x = nearest_bits(format, static_cast<double>(between(random, -3, 3)));
}
void powers_of_two(Random& random, Format format, std::vector<Bits>& to) {
  for (Bits& x : to) {
    const int e = static_cast<int>(between(random, -2, 2));
    x = nearest_bits(format, std::ldexp(one_in(random, 2) ? 1 : -1, e));
  }
}
void ramp(Random& random, Format format, std::vector<Bits>& to) {  // what is counted twice, or not at all, shows
  const auto start = static_cast<double>(between(random, -8, 8));
  constexpr std::size_t most = 8192;  // then again from the first: f16 ends at 65504
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = nearest_bits(format, start + static_cast<double>(i % most));
}
void ones(Random&, Format format, std::vector<Bits>& to) { std::fill(to.begin(), to.end(), nearest_bits(format, 1)); }
void non_finite(Random& random, Format format, std::vector<Bits>& to) {
  ordinary(random, format, to);
  const FormatInfo& f = info(format);
  for (int i = 0; i < 2 && !to.empty(); ++i) {
    to[random.next() % to.size()] = with_sign(random, format, one_in(random, 2) ? f.overflow() : f.quiet_nan());
  }
}

constexpr Family table[] = {
    {"ordinary", "a bell curve about 0, at any moderate scale", true, true, ordinary},
    {"large_mean", "a mean up to half the precision above the spread", true, true, large_mean},
    {"flat", "one number throughout", true, true, flat},
    {"nearly_flat", "one number, but for the last bit of one element", true, true, nearly_flat},
    {"two_neighbours", "a number and its neighbour", true, true, two_neighbours},
    {"outlier", "ordinary, but for one huge element", true, true, outlier},
    {"small_integers", "-3 to 3: near and exact ties", true, true, small_integers},
    {"powers_of_two", "1/4 to 4", true, true, powers_of_two},
    {"ramp", "consecutive integers", true, true, ramp},
    {"ones", "1 throughout: sums count", true, true, ones},
    {"signed_zeros", "0 and -0", true, true, signed_zeros},
    {"sparse", "ordinary, every other one 0 or -0", true, true, sparse},
    {"all_exponents", "any finite bit pattern", true, false, all_exponents},
    {"subnormal", "below the smallest normal number", true, false, subnormal},
    {"near_overflow", "squares near the largest number", true, false, near_overflow},
    {"largest", "the last binade of the format", true, false, largest},
    {"non_finite", "ordinary, with infinities and NaNs", false, false, non_finite},
};

}  // namespace

std::span<const Family> families() { return table; }

const Family& family_named(std::string_view name) {
  return *std::find_if(std::begin(table), std::end(table), [&](const Family& f) { return f.name == name; });
}

}  // namespace norma::properties
