#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>

namespace norma::properties {
namespace {

constexpr std::size_t margin = 512;     // bytes of the canary on the side where there is no wall
constexpr std::size_t wall = 64 << 10;  // so thick that a stride or two too many does not get past it
constexpr std::size_t slots_each = role_count;

std::size_t pages(std::size_t bytes) {
  static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

// The first byte that is not the canary, or the end.
const std::byte* first_hit(const std::byte* from, const std::byte* to) {
  if (from == to || (*from == canary && std::memcmp(from, from + 1, static_cast<std::size_t>(to - from) - 1) == 0)) return to;
  return std::find_if(from, to, [](std::byte b) { return b != canary; });
}

std::string bytes(std::ptrdiff_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); }

}  // namespace

SharedMemory::SharedMemory(std::size_t capacity, std::size_t control) : control_(pages(control)), capacity_(pages(capacity)) {
  // [control][wall][slot][wall][slot] … [wall], inputs before outputs.
  whole_ = control_ + wall + 2 * slots_each * (capacity_ + wall);
  void* at = mmap(nullptr, whole_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return;
  base_ = static_cast<std::byte*>(at);
  bool walls = mprotect(base_ + control_, wall, PROT_NONE) == 0;
  for (std::size_t i = 0; i < 2 * slots_each; ++i) walls &= mprotect(slot(i) + capacity_, wall, PROT_NONE) == 0;
  if (walls) return;
  munmap(base_, whole_);
  base_ = nullptr;
}

SharedMemory::~SharedMemory() {
  if (base_ != nullptr) munmap(base_, whole_);
}

std::byte* SharedMemory::slot(std::size_t index) const { return base_ + control_ + wall + index * (capacity_ + wall); }

void SharedMemory::inherit(bool yes) const { madvise(base_, whole_, yes ? MADV_DOFORK : MADV_DONTFORK); }

void SharedMemory::protect(bool yes) const {
  for (std::size_t i = 0; i < slots_each; ++i) mprotect(slot(i), capacity_, yes ? PROT_READ : PROT_READ | PROT_WRITE);
}

Placed SharedMemory::place(const Case& c, Role role, const Tensor& like, std::size_t index) const {
  Placed p = placed(c, role, like.format, like.shape);
  std::byte* const begin = slot(index);
  std::byte* const end = begin + capacity_;
  // Against the upper wall or the lower one in turn; with an offset as near to it as that allows.
  const bool high = (c.salt + index) % 2 == 0;
  const std::size_t offset = static_cast<std::size_t>(c.placement.offset * info(like.format).bytes()) % line;
  p.data = high ? end - p.bytes : begin + offset;
  if (high && c.placement.offset != 0) {
    const auto beyond = (capacity_ - p.bytes + line - offset) % line;
    p.data -= beyond;
  }
  std::byte* const from = p.data - std::min<std::size_t>(margin, p.data - begin);
  std::byte* const to = p.data + p.bytes + std::min<std::size_t>(margin, end - p.data - p.bytes);
  std::memset(from, static_cast<int>(canary), static_cast<std::size_t>(to - from));
  return p;
}

void SharedMemory::put(const Case& c, const ByRole<Tensor>& outputs, Blank blank, Slots& inputs, Slots& results) const {
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    inputs[r] = results[r] = {};
    if (outputs[role]) {
      const Tensor& t = *outputs[role];
      results[r] = place(c, role, t, slots_each + r);
      if (updated(role)) {
        scatter(t, results[r]);
      } else {
        fill(results[r], Pattern(t.format, blank));
      }
    }
    if (!c.inputs[role] || (updated(role) && outputs[role]) || (role == Role::x && in_place(c))) continue;
    inputs[r] = place(c, role, *c.inputs[role], r);
    scatter(*c.inputs[role], inputs[r]);
  }
  if (!in_place(c)) return;
  const Placed& shared = results[static_cast<std::size_t>(Role::y)];
  scatter(c.x(), shared);
  inputs[static_cast<std::size_t>(Role::x)] = shared;
}

SharedMemory::Taken SharedMemory::take(Blank blank, const Slots& results, ByRole<Tensor>& outputs) const {
  Taken taken;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!outputs[role]) continue;
    const Placed& p = results[r];
    taken.blank |= gather(p, Pattern(p.format, blank), *outputs[role]);
    const std::byte* const begin = slot(slots_each + r);
    const std::byte* const data_end = p.data + p.bytes;
    const std::byte* const from = p.data - std::min<std::size_t>(margin, p.data - begin);
    const std::byte* const to = data_end + std::min<std::size_t>(margin, begin + capacity_ - data_end);
    const std::byte* const hit = first_hit(from, to);
    if (hit == to || !taken.fault.empty()) continue;
    const std::string where(name(role));
    taken.fault = hit < p.data      ? "wrote " + bytes(p.data - hit) + " before the start of " + where
                  : hit >= data_end ? "wrote " + bytes(hit - data_end + 1) + " beyond the end of " + where
                                    : "wrote between the rows of " + where + ", at byte " + std::to_string(hit - p.data);
  }
  return taken;
}

std::string SharedMemory::describe(const void* address, std::string_view did, const Slots& inputs, const Slots& results) const {
  const auto* at = static_cast<const std::byte*>(address);
  const std::string what = std::string(did) + " ";
  const std::less<> before;
  if (before(at, base_) || !before(at, base_ + whole_)) {
    // A field or an element of what a null pointer points to is near it.
    return what +
           (reinterpret_cast<std::uintptr_t>(at) < 4096 ? "what a null pointer points to" : "what is at an address outside of all tensors");
  }
  // Between two slots is one wall: the tensor it is nearest to was meant.
  std::ptrdiff_t nearest = std::numeric_limits<std::ptrdiff_t>::max();
  std::string found = "memory between the tensors";
  for (const Slots* slots : {&inputs, &results}) {
    for (std::size_t r = 0; r < role_count; ++r) {
      const Placed& p = (*slots)[r];
      if (!p.present) continue;
      const auto beyond = at - p.data - static_cast<std::ptrdiff_t>(p.bytes), ahead = p.data - at;
      const std::ptrdiff_t distance = std::max({beyond, ahead, std::ptrdiff_t{-1}});
      if (distance >= nearest) continue;
      nearest = distance;
      const std::string where(role_names[r]);
      found = beyond >= 0 ? bytes(beyond + 1) + " beyond the end of " + where
              : ahead > 0 ? bytes(ahead) + " before the start of " + where
                          : "to " + where + ", which is an input";
    }
  }
  return what + found;
}

}  // namespace norma::properties
