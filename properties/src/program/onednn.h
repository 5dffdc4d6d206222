// oneDNN, to measure against. The program is whole without it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "norma/simd.h"

namespace norma::program {

// A call, made ready outside of what is timed.
class Prepared {
 public:
  Prepared() = default;
  virtual ~Prepared() = default;
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  virtual void run() = 0;
};

// "2.6.3", or "" in a program that was built without oneDNN.
[[nodiscard]] std::string onednn_version();

// What oneDNN does for the call, tensors included, on so many threads; null where it has nothing of the kind (rms_norm, group_norm, f64
// ...). gamma and beta, which must be there, are copied now.
[[nodiscard]] std::unique_ptr<Prepared> prepare_onednn(const simd::Call& call, std::size_t threads);

}  // namespace norma::program
