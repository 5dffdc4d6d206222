// Cases from bit patterns: families of inputs by name, what a law wishes for, and how a case gets smaller.
#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "norma/case.h"

namespace norma::properties {

// Numbers of one kind. `finite` families hold neither infinities nor NaNs; `tame` ones have squares far from the ends of the format.
struct Family {
  std::string_view name;
  std::string_view what;
  bool finite;
  bool tame;
  void (*fill)(rc::Random& random, Format format, std::vector<Bits>& to);
};
[[nodiscard]] std::span<const Family> families();
[[nodiscard]] const Family& family_named(std::string_view name);  // which there is

enum class Affine : std::uint8_t { any, none, both };

// The ops of subject.h.
[[nodiscard]] const std::vector<Op>& subject_ops();

inline constexpr std::int64_t huge_more = 40;

// Which cases a law can be asked of.
struct Wish {
  std::vector<Op> ops = {};          // none: all that subjects know
  std::vector<Format> formats = {};  // none: f32, f16, bf16 and f64
  bool finite = true;
  bool tame = false;
  Affine affine = Affine::any;
  std::int64_t least_rows = 1, most_rows = 8;  // rows, or cases of a batch
  std::int64_t least_n = 1, most_n = 130;      // elements of a row; positions times channels of a case
  bool far = false;                            // an extent that is far beyond the others, or five of them
  std::int64_t huge_n = 0;                     // of a row, now and then: so many and up to huge_more more
  bool plain_profile = false;                  // every field of the profile as usual
  bool profiles = false;                       // some field of it not as usual, nearly always
  bool statistics = false;                     // mean, rstd and running statistics are asked for too; of these some or all
  bool maybe_statistics = false;               // or so of every second case, for many subjects show none
  bool residual = false;                       // some x + residual
  bool mixed = false;                          // parameters of another format than x
  bool placements = false;                     // gaps, offsets, channels last
  bool epsilon_zero = false;                   // ε = 0 among the epsilons
  bool two_axes = false;                       // x is [rows, n], or [cases, channels]
  std::string_view family = {};                // only this one
};

// Whether a law that wishes for these may be asked of a case: a valid call, with all that a family says but where to look; the placement is
// free.
[[nodiscard]] bool fits(const Case& c, const Wish& wish);

// The case of that number: the same wish, seed and number give the same case, on every machine and in every order.
[[nodiscard]] rc::Shrinkable<Case> generate(const Wish& wish, std::uint64_t seed, std::uint64_t number);

// Smaller cases, the simplest first: fewer rows and elements, then less that is out of the ordinary, then simpler numbers.
[[nodiscard]] std::vector<Case> smaller(const Case& c, const Wish& wish);
// The case, and those as they are asked for.
[[nodiscard]] rc::Shrinkable<Case> shrinkable(Case c, const Wish& wish);

}  // namespace norma::properties
