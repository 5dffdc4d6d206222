// An operator new that counts, in a file of its own, so that no compiler sees through it and warns that it is not the usual one.
#include "allocated.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::size_t> total{0}, live{0}, most{0};

void* counted(std::size_t size) {
  total += size;
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) return nullptr;
  const std::size_t now = live += ::malloc_usable_size(memory);
  for (std::size_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
  }
  return memory;
}
void freed(void* memory) {
  live -= ::malloc_usable_size(memory);
  std::free(memory);
}
}  // namespace

void* operator new(std::size_t size) {
  if (void* const memory = counted(size)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return counted(size); }
void operator delete(void* memory) noexcept { freed(memory); }
void operator delete(void* memory, std::size_t) noexcept { freed(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { freed(memory); }

namespace norma {

std::size_t allocated() { return total; }

std::size_t most_allocated() {
  const std::size_t reached = most;
  most = live.load();
  return reached - most;
}

}  // namespace norma
