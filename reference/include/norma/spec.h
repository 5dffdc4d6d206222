// What an op means: its name, its semantics profile, its attributes, and the tensors it takes and gives.
//
// Ops, roles and profile words are tables; a program, a file format or a test that needs a name or a list takes it from here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "norma/format.h"

namespace norma {

enum class Op : std::uint8_t {
  layer_norm,
  rms_norm,
  batch_norm_training,
  batch_norm_inference,
  group_norm,
  instance_norm,
  weight_norm,
};

// The part a tensor plays in a call.
enum class Role : std::uint8_t {
  x,         // input; in weight_norm the direction v
  gamma,     // gain; in weight_norm the length g
  beta,      // bias
  residual,  // added to x first
  mean,      // statistics of batch_norm_inference; of the other ops an output
  variance,
  running_mean,  // batch_norm_training: input, output, or both
  running_variance,
  y,          // output
  rstd,       // 1/√(σ² + ε), or the profile's form of it
  sum,        // x + residual
  deviation,  // x − μ (x itself where no mean is subtracted)
  xhat,       // the standardized value, before gain and bias
};
inline constexpr std::size_t role_count = static_cast<std::size_t>(Role::xhat) + 1;
inline constexpr std::array<std::string_view, role_count> role_names{
    "x", "gamma", "beta", "residual", "mean", "variance", "running_mean", "running_variance", "y", "rstd", "sum", "deviation", "xhat"};
[[nodiscard]] constexpr std::string_view name(Role role) { return role_names[static_cast<std::size_t>(role)]; }
[[nodiscard]] constexpr std::optional<Role> role_named(std::string_view name) {
  for (std::size_t i = 0; i < role_count; ++i) {
    if (name == role_names[i]) return static_cast<Role>(i);
  }
  return std::nullopt;
}

class Roles {
 public:
  constexpr Roles(std::initializer_list<Role> roles) {
    for (const Role role : roles) mask_ |= 1U << static_cast<unsigned>(role);
  }
  [[nodiscard]] friend constexpr Roles operator|(Roles a, const Roles& b) {
    a.mask_ |= b.mask_;
    return a;
  }
  [[nodiscard]] constexpr bool contain(Role role) const { return (mask_ >> static_cast<unsigned>(role) & 1U) != 0; }

 private:
  unsigned mask_ = 0;
};

// Which elements form a group, that is, share one mean and one variance.
enum class Grouping : std::uint8_t {
  trailing,        // the axes from `axis` on: a row
  channel,         // everything at one index of the channel axis: a column
  channel_groups,  // per case, the channels of one of `groups` runs, over all positions
  leading_index,   // everything at one index of `axis`: the weights into one unit
};

struct OpInfo {
  std::string_view name;
  Grouping grouping;
  bool centred;           // subtracts the mean
  bool given_statistics;  // takes mean and variance instead of computing them
  double epsilon;         // default
  int axis;               // default
  Roles inputs;           // all it may take
  Roles required;         // the ones of these it must have
  Roles outputs;          // all it can give
  std::string_view summary;

  [[nodiscard]] constexpr bool estimates_variance() const { return centred && !given_statistics; }
};

namespace tensors {
inline constexpr Roles affine_inputs{Role::x, Role::gamma, Role::beta, Role::residual};
inline constexpr Roles elements{Role::y, Role::rstd, Role::sum, Role::deviation, Role::xhat};
inline constexpr Roles running{Role::running_mean, Role::running_variance};
inline constexpr Roles statistics{Role::mean, Role::variance};
inline constexpr Roles only_x{Role::x};
}  // namespace tensors

inline constexpr std::array<OpInfo, 7> ops{{
    {"layer_norm", Grouping::trailing, true, false, 1e-5, -1, tensors::affine_inputs, tensors::only_x,
     tensors::elements | tensors::statistics, "every row by its own mean and variance"},
    {"rms_norm", Grouping::trailing, false, false, 1e-5, -1, tensors::affine_inputs, tensors::only_x,
     tensors::elements | Roles{Role::variance}, "every row by its own root mean square; no mean subtracted"},
    {"batch_norm_training", Grouping::channel, true, false, 1e-5, 1, tensors::affine_inputs | tensors::running, tensors::only_x,
     tensors::elements | tensors::statistics | tensors::running, "every channel by the mean and variance of the batch"},
    {"batch_norm_inference", Grouping::channel, true, true, 1e-5, 1, tensors::affine_inputs | tensors::statistics,
     tensors::only_x | tensors::statistics, tensors::elements, "every channel by a given mean and variance"},
    {"group_norm", Grouping::channel_groups, true, false, 1e-5, 1, tensors::affine_inputs, tensors::only_x,
     tensors::elements | tensors::statistics, "every case's channels in groups, each by its own mean and variance"},
    {"instance_norm", Grouping::channel_groups, true, false, 1e-5, 1, tensors::affine_inputs, tensors::only_x,
     tensors::elements | tensors::statistics, "every channel of every case by its own mean and variance"},
    {"weight_norm", Grouping::leading_index, false, false, 0, 0, Roles{Role::x, Role::gamma}, tensors::only_x,
     Roles{Role::y, Role::variance, Role::rstd, Role::deviation, Role::xhat},
     "every unit's weight vector divided by its length, times its gain"},
}};
[[nodiscard]] constexpr const OpInfo& info(Op op) { return ops[static_cast<std::size_t>(op)]; }
[[nodiscard]] constexpr std::optional<Op> op_named(std::string_view name) {
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (name == ops[i].name) return static_cast<Op>(i);
  }
  return std::nullopt;
}
static_assert(name(Role::running_variance) == "running_variance" && name(Role::xhat) == "xhat" &&
                  info(Op::weight_norm).name == "weight_norm",
              "the tables are in the order of the enumerations");

// The words a profile is written in.
enum class EpsilonPlacement : std::uint8_t { inside, outside };  // √(σ² + ε), or √σ² + ε
enum class Estimator : std::uint8_t { biased, unbiased };        // divides by n, or by n − 1
enum class Momentum : std::uint8_t { weight_of_new, weight_of_old };
enum class ResidualSum : std::uint8_t { rounded, exact };  // x + residual rounded to the format of x (nearest even), or not at all

// The declared semantics of an op, where implementations in the wild differ. What does not concern an op says nothing about it, save
// that an unbiased variance is refused where none is estimated.
struct Profile {
  EpsilonPlacement epsilon_placement = EpsilonPlacement::inside;
  Estimator variance = Estimator::biased;
  Estimator running_variance = Estimator::unbiased;
  Momentum momentum = Momentum::weight_of_new;
  bool gain_offset = false;       // the gain is 1 + γ
  bool cast_before_gain = false;  // the standardized value is rounded to the format of y before the gain
  ResidualSum residual_sum = ResidualSum::rounded;

  friend bool operator==(const Profile&, const Profile&) = default;
};

using Shape = std::vector<std::int64_t>;

// A call without its tensors.
struct Spec {
  Op op = Op::layer_norm;
  Profile profile;
  std::optional<double> epsilon;       // ε, exactly; nullopt for the op's default
  std::optional<int> axis;             // first normalized axis, or the channel axis, or the kept one; negative counts from the end
  std::optional<std::int64_t> groups;  // group_norm only, and required there
  double momentum = 0.1;

  friend bool operator==(const Spec&, const Spec&) = default;
  [[nodiscard]] double effective_epsilon() const { return epsilon.value_or(info(op).epsilon); }
  [[nodiscard]] int effective_axis() const { return axis.value_or(info(op).axis); }
};

// A tensor in somebody's memory. Strides count elements and may be zero or negative; none means contiguous, last axis fastest.
template <class Byte>
struct BasicView {
  Format format = Format::f32;
  Byte* data = nullptr;
  Shape shape;
  std::vector<std::int64_t> strides;
};
using ConstView = BasicView<const std::byte>;
using View = BasicView<std::byte>;

// Tensors by role; an empty place is a tensor that was not given, or is not wanted.
template <class T>
class ByRole {
 public:
  std::optional<T>& operator[](Role role) { return slots_[static_cast<std::size_t>(role)]; }
  const std::optional<T>& operator[](Role role) const { return slots_[static_cast<std::size_t>(role)]; }

 private:
  std::array<std::optional<T>, role_count> slots_;
};

}  // namespace norma
