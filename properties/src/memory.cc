#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "norma/reference.h"

namespace norma::properties {
namespace {

constexpr std::byte canary{0xa5};
constexpr std::size_t margin = 512;  // of it on the side where there is no wall

std::size_t page() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}
std::size_t pages(std::size_t bytes) { return (bytes + page() - 1) / page() * page(); }

// A quiet NaN with a payload of its own.
Bits unwritten(Format format) { return info(format).quiet_nan() | (format == Format::bf16 ? 0x2a : 0x155); }

bool like_x(Role role) { return role == Role::x || role == Role::residual || role == Role::y || role == Role::sum; }

// Strides in elements, and the elements from the first to the last.
struct Strided {
  std::array<std::int64_t, most_axes> strides{};
  std::int64_t span = 0;
};
Strided strided(const Case& c, Role role, const Shape& shape) {
  std::array<std::size_t, most_axes> order{};  // axes from the innermost in memory
  const std::size_t rank = shape.size();
  for (std::size_t a = 0; a < rank; ++a) order[a] = rank - 1 - a;
  if (c.placement.channels_last && like_x(role) && info(c.spec.op).grouping != Grouping::trailing && rank > 2) {
    std::size_t k = 0;
    order[k++] = 1;
    for (std::size_t a = rank; a-- > 0;) {
      if (a != 1) order[k++] = a;
    }
  }
  Strided s;
  std::int64_t step = 1;
  bool empty = false;
  s.span = 1;
  for (std::size_t k = 0; k < rank; ++k) {
    const std::int64_t extent = shape[order[k]];
    s.strides[order[k]] = step;
    s.span += (extent - 1) * step;
    empty |= extent == 0;
    step *= std::max<std::int64_t>(1, extent);
    if (k == 0 && like_x(role)) step += c.placement.row_gap;
  }
  if (empty) s.span = 0;
  return s;
}

// at(i, j): element i of the contiguous tensor is element j in memory.
template <class At>
void for_each_element(const Placed& p, At&& at) {
  std::int64_t count = 1;
  for (std::int32_t a = 0; a < p.rank; ++a) count *= p.shape[static_cast<std::size_t>(a)];
  std::array<std::int64_t, most_axes> index{};
  std::int64_t j = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    at(i, j);
    for (std::size_t a = static_cast<std::size_t>(p.rank); a-- > 0;) {
      j += p.strides[a];
      if (++index[a] < p.shape[a]) break;
      j -= p.strides[a] * p.shape[a];
      index[a] = 0;
    }
  }
}

bool updated(Role role) { return role == Role::running_mean || role == Role::running_variance; }

constexpr std::size_t slots_each = role_count;

}  // namespace

std::size_t room_for(const Case& c) {
  std::size_t most = 0;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    const Role shape_of = c.inputs[role] ? role : Role::x;
    const Strided s = strided(c, role, c.inputs[shape_of]->shape);
    most = std::max(most, static_cast<std::size_t>(s.span + c.placement.offset) * 8);
  }
  return most + 2 * margin;
}

Result<ByRole<Tensor>> empty_outputs(const Case& c) {
  ByRole<Tensor> outputs;
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

SharedMemory::SharedMemory(std::size_t capacity, std::size_t control) : control_(pages(control)), capacity_(pages(capacity)) {
  // [control][wall][slot][wall][slot] … [wall], inputs before outputs.
  whole_ = control_ + page() + 2 * slots_each * (capacity_ + page());
  void* at = mmap(nullptr, whole_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return;
  base_ = static_cast<std::byte*>(at);
  bool walls = mprotect(base_ + control_, page(), PROT_NONE) == 0;
  for (std::size_t i = 0; i < 2 * slots_each; ++i) walls &= mprotect(slot(i) + capacity_, page(), PROT_NONE) == 0;
  if (walls) return;
  munmap(base_, whole_);
  base_ = nullptr;
}

SharedMemory::~SharedMemory() {
  if (base_ != nullptr) munmap(base_, whole_);
}

std::byte* SharedMemory::slot(std::size_t index) const { return base_ + control_ + page() + index * (capacity_ + page()); }

void SharedMemory::protect() const {
  for (std::size_t i = 0; i < slots_each; ++i) mprotect(slot(i), capacity_, PROT_READ);
}

void SharedMemory::place(const Case& c, Role role, const Tensor& like, std::size_t index, Placed& placed) const {
  const Strided s = strided(c, role, like.shape);
  const auto width = static_cast<std::size_t>(info(like.format).bytes());
  placed.present = true;
  placed.format = like.format;
  placed.rank = static_cast<std::int32_t>(like.shape.size());
  std::copy(like.shape.begin(), like.shape.end(), placed.shape.begin());
  placed.strides = s.strides;
  placed.bytes = static_cast<std::size_t>(s.span) * width;
  std::byte* const begin = slot(index);
  const auto offset = static_cast<std::size_t>(c.placement.offset) * width;
  // Against the upper wall or the lower one in turn; with an offset, as far from a multiple of 64 bytes as it says.
  const bool high = c.placement.offset == 0 && (c.salt + index) % 2 == 0;
  placed.data = high ? begin + capacity_ - placed.bytes : begin + offset;
  std::byte* const from = std::max(begin, placed.data - margin);
  std::byte* const to = std::min(begin + capacity_, placed.data + placed.bytes + margin);
  std::memset(from, static_cast<int>(canary), static_cast<std::size_t>(to - from));
}

void SharedMemory::put(const Case& c, const ByRole<Tensor>& outputs, Slots& inputs, Slots& results) const {
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    inputs[r] = results[r] = {};
    if (outputs[role]) {
      const Tensor& t = *outputs[role];
      place(c, role, t, slots_each + r, results[r]);
      const auto width = info(t.format).bytes();
      for_each_element(results[r], [&](std::int64_t i, std::int64_t j) {
        store(t.format, updated(role) ? bits_at(t, i) : unwritten(t.format), results[r].data + j * width);
      });
    }
    if (c.inputs[role] && !(updated(role) && outputs[role])) {
      const Tensor& t = *c.inputs[role];
      if (role == Role::x && c.placement.in_place && t.format == c.format) continue;  // below
      place(c, role, t, r, inputs[r]);
      const auto width = info(t.format).bytes();
      for_each_element(inputs[r], [&](std::int64_t i, std::int64_t j) { store(t.format, bits_at(t, i), inputs[r].data + j * width); });
    }
  }
  constexpr auto x = static_cast<std::size_t>(Role::x), y = static_cast<std::size_t>(Role::y);
  if (!inputs[x].present && results[y].present) {
    inputs[x] = results[y];
    const auto width = info(c.format).bytes();
    for_each_element(inputs[x], [&](std::int64_t i, std::int64_t j) { store(c.format, bits_at(c.x(), i), inputs[x].data + j * width); });
  }
}

std::string SharedMemory::take(const Case& c, const Slots& results, ByRole<Tensor>& outputs) const {
  std::string fault;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!outputs[role]) continue;
    Tensor& t = *outputs[role];
    const Placed& p = results[r];
    const auto width = static_cast<std::ptrdiff_t>(info(t.format).bytes());
    const bool in_place = role == Role::y && c.placement.in_place && c.x().format == c.format;
    for_each_element(p, [&](std::int64_t i, std::int64_t j) {
      std::byte* at = p.data + j * width;
      const Bits bits = load(t.format, at);
      set_bits(t, i, bits);
      if (!in_place && !updated(role) && bits == unwritten(t.format) && fault.empty()) {
        fault = std::string(name(role)) + "[" + std::to_string(i) + "] was not written";
      }
      std::memset(at, static_cast<int>(canary), static_cast<std::size_t>(width));  // what is left has to be all of it
    });
    std::byte* const begin = slot(slots_each + r);
    std::byte* const from = std::max(begin, p.data - margin);
    std::byte* const to = std::min(begin + capacity_, p.data + p.bytes + margin);
    const std::byte* hit = std::find_if(from, to, [](std::byte b) { return b != canary; });
    if (hit == to || !fault.empty()) continue;
    const std::string where(name(role));
    fault = hit < p.data ? "wrote " + std::to_string(p.data - hit) + " bytes before the start of " + where
            : hit >= p.data + p.bytes
                ? "wrote " + std::to_string(hit - p.data - static_cast<std::ptrdiff_t>(p.bytes) + 1) + " bytes beyond the end of " + where
                : "wrote between the rows of " + where + ", at byte " + std::to_string(hit - p.data);
  }
  return fault;
}

std::string SharedMemory::describe(const void* address, const Slots& inputs, const Slots& results) const {
  const auto* at = static_cast<const std::byte*>(address);
  const std::less<> before;
  if (before(at, base_) || !before(at, base_ + whole_)) return at == nullptr ? "at a null pointer" : "at an address outside of all tensors";
  // Between two slots is one wall: the tensor it is nearest to was meant.
  std::ptrdiff_t nearest = std::numeric_limits<std::ptrdiff_t>::max();
  std::string what;
  for (const Slots* slots : {&inputs, &results}) {
    for (std::size_t r = 0; r < role_count; ++r) {
      const Placed& p = (*slots)[r];
      if (!p.present) continue;
      const auto beyond = at - p.data - static_cast<std::ptrdiff_t>(p.bytes), ahead = p.data - at;
      const std::ptrdiff_t distance = std::max({beyond, ahead, std::ptrdiff_t{-1}});
      if (distance >= nearest) continue;
      nearest = distance;
      const std::string where(role_names[r]);
      what = beyond >= 0 ? "touched " + std::to_string(beyond + 1) + " bytes beyond the end of " + where
             : ahead > 0 ? "touched " + std::to_string(ahead) + " bytes before the start of " + where
                         : "wrote to " + where + ", which is an input";
    }
  }
  if (!what.empty()) return what;
  return "touched memory between the tensors";
}

}  // namespace norma::properties
