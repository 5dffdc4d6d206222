#pragma once

#include <cstddef>

namespace norma {

// Bytes asked of operator new so far, in all threads. (Libzip, written in C, allocates by other means.)
std::size_t allocated();

}  // namespace norma
