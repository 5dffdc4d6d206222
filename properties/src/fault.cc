#include "fault.h"

#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>

namespace norma::properties {
namespace {

Fault* noted = nullptr;

// What the kernel tells of the machine, machine by machine.
void examine(const ucontext_t& context) {
#if defined(__x86_64__)
  constexpr greg_t write = 2;  // in the error code of a page fault
  const auto& registers = context.uc_mcontext.gregs;
  noted->access = (registers[REG_ERR] & write) != 0 ? Fault::Access::write : Fault::Access::read;
  noted->stack = static_cast<std::uintptr_t>(registers[REG_RSP]);
#elif defined(__aarch64__)
  noted->stack = context.uc_mcontext.sp;
#else
  (void)context;
#endif
}

// Notes what happened and lets it happen: the handler is gone by now.
void note(int number, siginfo_t* what, void* context) {
  if (what->si_code <= 0) {
    kill(getpid(), number);  // sent, not met: it will not come again by itself
    return;
  }
  noted->address = what->si_addr;
  examine(*static_cast<const ucontext_t*>(context));
  if (what->si_code == SI_KERNEL) noted->access = Fault::Access::no_address;
  noted->signal = number;
}

// What reaches just below the end of the stack, calls a function or keeps something there.
bool out_of_stack(const Fault& fault) {
  constexpr std::uintptr_t near = 64 << 10;
  const auto at = reinterpret_cast<std::uintptr_t>(fault.address);
  return fault.stack != 0 && at - fault.stack + near < 2 * near;
}

}  // namespace

void note_faults(Fault& into) {
  noted = &into;
  static std::array<std::byte, 1 << 16> stack;  // for a handler to run on when there is no other
  const stack_t alternative{stack.data(), 0, stack.size()};
  sigaltstack(&alternative, nullptr);
  struct sigaction action {};
  action.sa_sigaction = note;
  action.sa_flags = static_cast<int>(SA_SIGINFO | SA_ONSTACK | SA_RESETHAND);
  for (const int number : {SIGSEGV, SIGBUS}) sigaction(number, &action, nullptr);
}

std::string describe(const Fault& fault, const SharedMemory& memory, const Slots& inputs, const Slots& results) {
  if (out_of_stack(fault)) return "it ran out of stack";
  switch (fault.access) {
    case Fault::Access::no_address:
      return "an aligned load or store of what is not aligned, or a pointer that is none";
    case Fault::Access::read:
      return memory.describe(fault.address, "read", inputs, results);
    case Fault::Access::write:
      return memory.describe(fault.address, "wrote", inputs, results);
    default:
      return memory.describe(fault.address, "touched", inputs, results);
  }
}

}  // namespace norma::properties
