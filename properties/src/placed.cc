#include "placed.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "norma/reference.h"

namespace norma::properties {
namespace {

bool like_x(Role role) { return role == Role::x || role == Role::residual || role == Role::y || role == Role::sum; }

// run(i, j, n, step): elements i to i + n of the contiguous tensor are elements j, j + step, … in memory.
template <class Run>
void for_each_run(const Placed& p, Run&& run) {
  if (p.bytes == 0) return;
  const std::size_t last = p.rank == 0 ? 0 : static_cast<std::size_t>(p.rank) - 1;
  const std::int64_t n = p.rank == 0 ? 1 : p.shape[last], step = p.rank == 0 ? 1 : p.strides[last];
  std::int64_t runs = 1;
  for (std::size_t a = 0; a < last; ++a) runs *= p.shape[a];
  std::array<std::int64_t, most_axes> index{};
  std::int64_t j = 0;
  for (std::int64_t r = 0; r < runs; ++r) {
    run(r * n, j, n, step);
    for (std::size_t a = last; a-- > 0;) {
      j += p.strides[a];
      if (++index[a] < p.shape[a]) break;
      j -= p.strides[a] * p.shape[a];
      index[a] = 0;
    }
  }
}

// use(std::integral_constant<std::size_t, bytes of an element>): what a loop over elements knows about them.
template <class Use>
void with_width(Format format, Use&& use) {
  switch (info(format).bytes()) {
    case 1:
      return use(std::integral_constant<std::size_t, 1>());
    case 2:
      return use(std::integral_constant<std::size_t, 2>());
    case 4:
      return use(std::integral_constant<std::size_t, 4>());
    default:
      return use(std::integral_constant<std::size_t, 8>());
  }
}

}  // namespace

bool in_place(const Case& c) { return c.placement.in_place && c.x().format == c.format && c.outputs.contain(Role::y); }

Placed placed(const Case& c, Role role, Format format, const Shape& shape) {
  std::array<std::size_t, most_axes> order{};  // axes from the innermost in memory
  const std::size_t rank = shape.size();
  for (std::size_t a = 0; a < rank; ++a) order[a] = rank - 1 - a;
  if (c.placement.channels_last && like_x(role) && info(c.spec.op).grouping != Grouping::trailing && rank > 2) {
    const auto channels = static_cast<std::size_t>(axis_of(c.spec, rank));
    std::size_t k = 0;
    order[k++] = channels;
    for (std::size_t a = rank; a-- > 0;) {
      if (a != channels) order[k++] = a;
    }
  }
  Placed p;
  p.present = true;
  p.format = format;
  p.rank = static_cast<std::int32_t>(rank);
  std::int64_t step = 1, span = 1;
  for (std::size_t k = 0; k < rank; ++k) {
    const std::int64_t extent = shape[order[k]];
    p.shape[order[k]] = extent;
    p.strides[order[k]] = step;
    span += (extent - 1) * step;
    step *= std::max<std::int64_t>(1, extent);
    if (k == 0 && like_x(role)) step += c.placement.row_gap;
  }
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  p.bytes = empty ? 0 : static_cast<std::size_t>(span * info(format).bytes());
  return p;
}

std::size_t room_for(const Case& c, const ByRole<Tensor>& outputs) {
  std::size_t most = 0;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    for (const auto& t : {&c.inputs[role], &outputs[role]}) {
      if (*t) most = std::max(most, placed(c, role, (*t)->format, (*t)->shape).bytes);
    }
  }
  return most + 2 * line;  // an offset takes less than one at either end
}

Result<ByRole<Tensor>> empty_outputs(const Case& c) {
  ByRole<Tensor> outputs;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto& input = c.inputs[static_cast<Role>(r)];
    if (input && input->shape.size() > most_axes) {
      return Status{Code::bad_shape, std::string(role_names[r]) + " has " + std::to_string(input->shape.size()) +
                                         " axes: expected at most " + std::to_string(most_axes)};
    }
  }
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!c.outputs.contain(role) || !info(c.spec.op).outputs.contain(role)) continue;
    if (updated(role)) {
      if (c.inputs[role]) outputs[role] = *c.inputs[role];
      continue;
    }
    const Result<Shape> shape = tensor_shape(c.spec, c.x().shape, role);
    if (!shape.ok()) return shape.status();
    const bool statistic = role == Role::mean || role == Role::rstd || role == Role::variance;
    const Format format = role == Role::y || role == Role::xhat      ? c.format
                          : statistic && c.x().format != Format::f64 ? Format::f32
                                                                     : c.x().format;
    outputs[role] = tensor_of(role, format, *shape);
  }
  return outputs;
}

Pattern::Pattern(Format format, Blank blank) {
  const Bits payload = blank == Blank::first ? 0xaaaaaaaaaaaaa : 0x5555555555555;
  const Bits room = (Bits{1} << (info(format).fraction_bits() - 1)) - 1;
  store(format, info(format).quiet_nan() | (payload & room), bytes.data());
}

void scatter(const Tensor& from, const Placed& to) {
  with_width(to.format, [&](auto width) {
    for_each_run(to, [&](std::int64_t i, std::int64_t j, std::int64_t n, std::int64_t step) {
      for (std::int64_t k = 0; k < n; ++k) {
        std::memcpy(to.data + (j + k * step) * std::ptrdiff_t{width}, from.data.data() + (i + k) * std::ptrdiff_t{width}, width);
      }
    });
  });
}

void fill(const Placed& to, const Pattern& pattern) {
  with_width(to.format, [&](auto width) {
    for_each_run(to, [&](std::int64_t, std::int64_t j, std::int64_t n, std::int64_t step) {
      for (std::int64_t k = 0; k < n; ++k) std::memcpy(to.data + (j + k * step) * std::ptrdiff_t{width}, pattern.bytes.data(), width);
    });
  });
}

bool gather(const Placed& from, const Pattern& pattern, Tensor& to) {
  bool found = false;
  with_width(from.format, [&](auto width) {
    for_each_run(from, [&](std::int64_t i, std::int64_t j, std::int64_t n, std::int64_t step) {
      for (std::int64_t k = 0; k < n; ++k) {
        std::byte* const at = from.data + (j + k * step) * std::ptrdiff_t{width};
        std::memcpy(to.data.data() + (i + k) * std::ptrdiff_t{width}, at, width);
        found |= std::memcmp(at, pattern.bytes.data(), width) == 0;
        std::memset(at, static_cast<int>(canary), width);
      }
    });
  });
  return found;
}

std::string unwritten(const Case& c, const ByRole<Tensor>& over_first, const ByRole<Tensor>& over_second) {
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    const auto &first = over_first[role], &second = over_second[role];
    if (!first || !second || updated(role) || (role == Role::y && in_place(c))) continue;
    const Pattern of_first(first->format, Blank::first), of_second(first->format, Blank::second);
    const Bits a = load(first->format, of_first.bytes.data()), b = load(first->format, of_second.bytes.data());
    for (std::int64_t i = 0; a != b && i < size_of(*first); ++i) {
      if (bits_at(*first, i) == a && bits_at(*second, i) == b)
        return std::string(name(role)) + "[" + std::to_string(i) + "] was not written";
    }
  }
  return "";
}

}  // namespace norma::properties
