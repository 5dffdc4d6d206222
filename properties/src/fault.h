// What a process notes of the fault it dies of, in shared memory, and what that says.
#pragma once

#include <cstdint>
#include <string>

#include "memory.h"

namespace norma::properties {

struct Fault {
  enum class Access : std::uint8_t { unknown, read, write, no_address };
  volatile int signal = 0;
  volatile Access access = Access::unknown;
  void* volatile address = nullptr;
  volatile std::uintptr_t stack = 0;  // where its end was; 0 where nobody knows
};

// From now on this process notes what it dies of.
void note_faults(Fault& into);

// "wrote 4 bytes beyond the end of y".
[[nodiscard]] std::string describe(const Fault& fault, const SharedMemory& memory, const Slots& inputs, const Slots& results);

}  // namespace norma::properties
