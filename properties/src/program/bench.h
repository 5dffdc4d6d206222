// norma bench in three parts: what is measured, measuring it, and saying what came out.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "norma/simd.h"
#include "norma/spec.h"
#include "norma/status.h"
#include "program.h"

namespace norma::program::benchmark {

inline constexpr int least_rounds = 15;

struct Options {
  std::vector<std::string> ops;
  std::vector<std::string> dtypes{"f32"};
  std::vector<std::string> shapes;
  std::vector<std::string> threads{"1", "all"};
  std::string accuracy = "both";
  std::string layout = "both";
  std::string against;
  std::size_t groups = 32;
  int rounds = least_rounds;
  bool json = false;
  bool markdown = false;
  double load = 0;  // of the machine before: if it is much, somebody else is at work
};

enum Variant : std::size_t { copy, correctly_rounded, fast, onednn, variant_count };
inline constexpr std::array<std::string_view, variant_count> variant_names{"memcpy", "correctly_rounded", "fast", "onednn"};

// What is measured.
struct Problem {
  Op op;
  Format format;
  Shape shape;  // rows and cols, or cases, channels and the extents of a map, whatever the layout
  simd::Layout layout = simd::Layout::channels_first;
  std::size_t groups = 1;

  [[nodiscard]] bool rows() const { return info(op).grouping == Grouping::trailing; }
  [[nodiscard]] std::size_t elements() const {
    std::int64_t product = 1;
    for (const std::int64_t extent : shape) product *= extent;
    return static_cast<std::size_t>(product);
  }
  [[nodiscard]] std::string_view layout_name() const {
    return rows() || shape.size() == 2 ? "" : layout == simd::Layout::channels_last ? "NHWC" : "NCHW";
  }
  [[nodiscard]] std::string shape_name() const { return fmt::format("{}", fmt::join(shape, "x")); }
  [[nodiscard]] std::string title() const { return fmt::format("{}{}{}", shape_name(), layout_name().empty() ? "" : " ", layout_name()); }
};

struct Measurement {
  Problem problem;
  std::size_t threads = 1;
  std::array<std::vector<double>, variant_count> ns;  // of a call, one a round; empty for what there is not
};

// Every problem on every number of threads, variants taking turns. A status if one of them cannot be had.
Result<std::vector<Measurement>> measure(const Options& options, const std::vector<Problem>& problems,
                                         const std::vector<std::size_t>& threads, Progress& progress);

void print_json(const Options& options, const std::vector<Measurement>& all, const std::vector<Measurement>& small);
void print_tables(const Options& options, const std::vector<Measurement>& all, const std::vector<Measurement>& small);

}  // namespace norma::program::benchmark
