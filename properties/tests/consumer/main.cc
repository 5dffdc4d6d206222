// The worked example of the walkthrough, (1, 2, 3, 4), through the installed reference.
#include <array>
#include <cstdio>

#include "norma/reference.h"

int main() {
  const std::array<float, 4> x{1, 2, 3, 4};
  std::array<float, 4> y{};
  norma::ByRole<norma::ConstView> inputs;
  norma::ByRole<norma::View> outputs;
  inputs[norma::Role::x] = norma::ConstView{norma::Format::f32, reinterpret_cast<const std::byte*>(x.data()), {4}, {}};
  outputs[norma::Role::y] = norma::View{norma::Format::f32, reinterpret_cast<std::byte*>(y.data()), {4}, {}};
  const norma::Status status = norma::compute({}, inputs, outputs);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message.c_str());
    return 1;
  }
  std::printf("%a %a %a %a\n", y[0], y[1], y[2], y[3]);
}
