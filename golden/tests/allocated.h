#pragma once

#include <cstddef>

namespace norma {

// Bytes asked of operator new so far, in all threads. (Libzip, written in C, allocates by other means.)
std::size_t allocated();
// The most at once since it was last called, beyond what there is now.
std::size_t most_allocated();

}  // namespace norma
