#include <algorithm>
#include <cmath>
#include <optional>

#include "norma/exact.h"
#include "norma/reference.h"
#include "norma/vectors.h"

namespace norma::properties {
namespace {

// What is normalized: x, or x + residual, of which double is wide enough to be
// rounded again.
double normalized_at(const Case& c, std::int64_t i) {
  const double x = value_at(c.x(), i);
  if (!c.inputs[Role::residual]) return x;
  return value_of(c.x().format, nearest_bits(c.x().format, x + value_at(*c.inputs[Role::residual], i)));
}

// What flags look at, of a group.
struct Group {
  std::int64_t n = 0;
  bool flat = true, finite = true, zeros = true;
  double squares = 0, largest_square = 0, first = 0;
};
std::vector<Group> groups_of(const Case& c) {
  const Membership m = membership(c);
  std::vector<Group> all(static_cast<std::size_t>(m.groups));
  for (std::int64_t i = 0; i < c.elements(); ++i) {
    Group& g = all[static_cast<std::size_t>(m.group[static_cast<std::size_t>(i)])];
    const double x = normalized_at(c, i);
    if (g.n++ == 0) g.first = x;
    g.flat &= x == g.first;
    g.finite &= std::isfinite(x);
    g.zeros &= x == 0;
    g.squares += x * x;
    g.largest_square = std::max(g.largest_square, x * x);
  }
  return all;
}
template <class Is>
bool any_group(const Case& c, Is&& is) {
  const std::vector<Group> all = groups_of(c);
  return std::any_of(all.begin(), all.end(), [&](const Group& g) { return g.n != 0 && is(g); });
}
template <class Is>
bool any_element(const Tensor& t, Is&& is) {
  for (std::int64_t i = 0; i < size_of(t); ++i) {
    if (is(decode(t.format, bits_at(t, i)))) return true;
  }
  return false;
}
template <class Is>
bool any_y(const Truth& truth, Is&& is) {
  return std::any_of(truth.y().begin(), truth.y().end(), is);
}

// What most kernels compute in.
Format compute_format(const Case& c) { return c.format == Format::f64 ? Format::f64 : Format::f32; }
double largest(Format format) { return value_of(format, info(format).max_finite()); }
double smallest_normal(Format format) { return std::ldexp(1.0, info(format).min_exponent()); }
bool averages(const Case& c) { return !info(c.spec.op).given_statistics; }

bool is_subnormal(Format format, double value) { return value != 0 && std::fabs(value) < smallest_normal(format); }

constexpr Flag table[] = {
    {"FlatRow",
     "All elements of a group are equal, so that y is beta, where a mean is "
     "taken away and epsilon is not 0. A mean or a sum of squares that "
     "is off by a rounding divides what is left by sqrt(epsilon).",
     "flat_row_is_beta",
     "microsoft/onnxruntime#21935, pytorch/pytorch#108072, google/flax#1491, "
     "intel/torch-xpu-ops#1374",
     [](const Case& c, const Truth&, const Tie&) {
       return averages(c) && any_group(c, [](const Group& g) { return g.n > 1 && g.flat && g.finite; });
     }},
    {"SizeOne",
     "A group of a single element: its variance is 0, and where a mean is "
     "taken away y is beta. Nothing may be divided by n - 1.",
     "flat_row_is_beta", "web-platform-tests/wpt#43893, torch/nn#1271, pytorch/pytorch#188372",
     [](const Case& c, const Truth&, const Tie&) { return averages(c) && any_group(c, [](const Group& g) { return g.n == 1; }); }},
    {"LargeMean",
     "The mean is more than 256 times the spread. E[x^2] - E[x]^2 cancels: the "
     "variance is noise, or negative, and y NaN.",
     "error_bound",
     "microsoft/onnxruntime#28463, apache/tvm#19592, tracel-ai/burn#5607, "
     "tenstorrent/tt-metal#45968",
     [](const Case& c, const Truth& truth, const Tie&) {
       return averages(c) && info(c.spec.op).centred && any_y(truth, [](const Element& e) { return e.condition > 256 && e.xhat != 0; });
     }},
    {"NearTie",
     "An element of y is within 1/1024 ulp of the middle between two numbers: "
     "only an exact computation knows where it rounds to.",
     "special_values", "", [](const Case&, const Truth&, const Tie& tie) { return !tie.exact && tie.distance < 0x1p-10; }},
    {"ExactTie",
     "An element of y is the middle between two numbers. It goes to the even "
     "one.",
     "special_values", "", [](const Case&, const Truth&, const Tie& tie) { return tie.exact; }},
    {"VarianceOverflow",
     "Squares, or their sum, are beyond the largest float (of f64: double), "
     "but y is not. It takes scaling, or the wider format: severity "
     "should.",
     "error_bound", "tenstorrent/tt-metal#55159",
     [](const Case& c, const Truth& truth, const Tie&) {
       return averages(c) && any_y(truth, [](const Element& e) { return std::isfinite(e.exact); }) &&
              any_group(c, [&](const Group& g) { return g.finite && g.squares > largest(compute_format(c)); });
     }},
    {"HalfOverflow",
     "Squares, or their sum, are beyond 65504: in float16, the variance is "
     "infinite and y is 0.",
     "error_bound",
     "pytorch/pytorch#133085, microsoft/onnxruntime#29034, "
     "nntrainer/nntrainer#3935",
     [](const Case& c, const Truth&, const Tie&) {
       return averages(c) && c.format == Format::f16 && any_group(c, [](const Group& g) { return g.finite && g.squares > 65504; });
     }},
    {"SquareUnderflow",
     "No square of a group is a normal float (of f64: double): what is flushed "
     "to zero loses the variance.",
     "error_bound", "tenstorrent/tt-metal#55159",
     [](const Case& c, const Truth&, const Tie&) {
       return averages(c) &&
              any_group(c, [&](const Group& g) { return g.finite && !g.zeros && g.largest_square < smallest_normal(compute_format(c)); });
     }},
    {"Subnormal",
     "An element of x or y is subnormal. Flushed to zero, it is wrong by all "
     "of it.",
     "special_values", "",
     [](const Case& c, const Truth& truth, const Tie&) {
       return any_element(c.x(),
                          [&](const Decoded& d) {
                            return d.kind == Kind::finite && d.significand != 0 && d.significand >> info(c.format).fraction_bits() == 0;
                          }) ||
              any_y(truth, [&](const Element& e) { return is_subnormal(c.format, value_of(c.format, e.rounded)); });
     }},
    {"SignedZero", "x holds -0, which counts as 0.", "special_values", "",
     [](const Case& c, const Truth&, const Tie&) {
       return any_element(c.x(), [](const Decoded& d) { return d.kind == Kind::finite && d.significand == 0 && d.negative; });
     }},
    {"TailLane",
     "Groups are longer than a vector of 8 and no multiple of it: a last part "
     "is to be counted, once.",
     "error_bound",
     "ROCm/aiter#5044, ggml-org/llama.cpp#26708, ROCm/rocm-libraries#9030, "
     "lablup/mlxcel#1033",
     [](const Case& c, const Truth&, const Tie&) { return any_group(c, [](const Group& g) { return g.n > 8 && g.n % 8 != 0; }); }},
    {"CancelNearBeta",
     "gamma * x_hat and beta cancel: |y| is under 1/16 of |beta|, and what was "
     "rounded before shows.",
     "error_bound", "",
     [](const Case& c, const Truth& truth, const Tie&) {
       if (!c.inputs[Role::beta]) return false;
       const Membership m = membership(c);
       for (std::size_t i = 0; i < truth.y().size(); ++i) {
         const Tensor& beta = *c.inputs[Role::beta];
         const double b = std::fabs(value_at(beta, m.parameter[i] % size_of(beta)));
         if (std::isfinite(b) && std::fabs(truth.y()[i].exact) < b / 16) return true;
       }
       return false;
     }},
    {"EpsilonDominates",
     "epsilon is larger than the variance: where it is added, and whether it "
     "is a maximum instead, shows.",
     "error_bound",
     "pytorch/pytorch#190491, tracel-ai/burn#2185, nntrainer/nntrainer#4318, "
     "tensorflow/tensorflow#58863",
     [](const Case& c, const Truth& truth, const Tie&) {
       if (!averages(c) || !truth.outputs[Role::variance]) return false;
       const Elements& v = *truth.outputs[Role::variance];
       const std::vector<Group> groups = groups_of(c);
       for (std::size_t g = 0; g < std::min(v.size(), groups.size()); ++g) {
         const bool none = info(c.spec.op).centred ? groups[g].flat : groups[g].zeros;
         if (groups[g].finite && !none && v[g].exact < c.spec.effective_epsilon()) return true;
       }
       return false;
     }},
    {"EpsilonZero", "epsilon is 0.", "scale_invariance", "",
     [](const Case& c, const Truth&, const Tie&) { return c.spec.effective_epsilon() == 0; }},
    {"EpsilonLost", "epsilon is not 0, but rounds to 0 in the format of x.", "error_bound",
     "pytorch/pytorch#41527, deepspeedai/DeepSpeed#581, pytorch/pytorch#142848",
     [](const Case& c, const Truth&, const Tie&) {
       const double epsilon = c.spec.effective_epsilon();
       return epsilon != 0 && value_of(c.format, nearest_bits(c.format, epsilon)) == 0;
     }},
    {"NonFinite",
     "What is normalized holds an infinity or a NaN: where its group has a "
     "mean of its own, all of that is NaN; other groups are as they are.",
     "special_values", "pytorch/pytorch#173885",
     [](const Case& c, const Truth&, const Tie&) { return any_group(c, [](const Group& g) { return !g.finite; }); }},
    {"CountInLowPrecision", "Groups are longer than the format of x can count.", "error_bound",
     "pytorch/executorch#16727, openvinotoolkit/openvino#35942",
     [](const Case& c, const Truth&, const Tie&) {
       return averages(c) &&
              any_group(c, [&](const Group& g) { return std::ldexp(1.0, info(c.format).precision) < static_cast<double>(g.n); });
     }},
    {"MixedFormats", "Parameters or statistics have another format than x.", "error_bound", "apple/coreai-torch#54",
     [](const Case& c, const Truth&, const Tie&) {
       for (std::size_t r = 0; r < role_count; ++r) {
         const auto& t = c.inputs[static_cast<Role>(r)];
         if (t && t->format != c.format) return true;
       }
       return false;
     }},
    {"Profile", "Somebody's definition, not the paper's: see the case's profile.", "error_bound",
     "vllm-project/vllm#42379, linkedin/Liger-Kernel#1462, FluxML/Flux.jl#529",
     [](const Case& c, const Truth&, const Tie&) {
       Profile p = c.spec.profile;
       p.momentum = Momentum::weight_of_new;
       p.running_variance = Estimator::unbiased;
       return !(p == Profile());
     }},
    {"RunningStatistics",
     "Running statistics take in the batch, by the case's momentum and "
     "estimator; y takes nothing from them.",
     "running_update",
     "ml-explore/mlx#3817, PaddlePaddle/Paddle#51120, "
     "microsoft/onnxruntime#29790",
     [](const Case& c, const Truth&, const Tie&) { return c.inputs[Role::running_mean].has_value(); }},
    {"Residual",
     "x + residual, rounded to the format of x, is what is normalized; it is "
     "an output as well.",
     "error_bound", "", [](const Case& c, const Truth&, const Tie&) { return c.inputs[Role::residual].has_value(); }},
    {"Empty", "A tensor without elements.", "special_values", "tensorflow/tensorflow#46366, pytorch/pytorch#12013",
     [](const Case& c, const Truth&, const Tie&) { return c.elements() == 0; }},
};

// Whether a number is the middle between two of a format.
bool is_tie(const Digits& d, Format format) {
  const int below = info(format).ulp_exponent(d.log2()) - d.exponent;  // bits under the last place
  return !d.sticky && below > 0 && below < 64 && (d.significand & ((std::uint64_t{1} << below) - 1)) == std::uint64_t{1} << (below - 1);
}

}  // namespace

std::span<const Flag> flags() { return table; }

Tie closest_tie(const Case& c) {
  ByRole<ConstView> inputs;
  for (std::size_t r = 0; r < role_count; ++r) {
    if (c.inputs[static_cast<Role>(r)]) inputs[static_cast<Role>(r)] = c.inputs[static_cast<Role>(r)]->view();
  }
  Tensor y = tensor_of(Role::y, c.format, c.x().shape);
  ByRole<View> wanted;
  wanted[Role::y] = View{c.format, y.data.data(), y.shape, {}};
  Tie closest;
  (void)evaluate(c.spec, inputs, wanted, Mode::nearest_even, [&](Role, std::int64_t, const Real& value) {
    if (!value.finite()) return;
    const Bits rounded = round(value, c.format).bits;
    if (std::isinf(value_of(c.format, rounded))) return;  // beyond the last middle there is none
    const double distance = 0.5 - ulp_error(value, c.format, rounded);
    if (distance < closest.distance) closest.distance = distance;
    const Digits d = digits(value);
    closest.exact = closest.exact || (!d.zero() && is_tie(d, c.format));
  });
  return closest;
}

}  // namespace norma::properties
