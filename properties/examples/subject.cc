// instance_norm of double, as a subject in C++:
//     c++ -std=c++17 -O2 -shared -fPIC -I properties/include subject.cc -o libsubject.so
//     norma check ./libsubject.so --op instance_norm
#include "norma/subject.h"

#include <cmath>

namespace {

int normalize(const norma_call* c, char*, size_t) {
  // instance_norm of [cases, channels, positions], contiguous: each channel of each case by itself.
  const norma_tensor& x = *c->x;
  if (c->op != NORMA_INSTANCE_NORM || x.rank != 3 || x.format != NORMA_F64 || c->y->format != NORMA_F64) return NORMA_UNSUPPORTED;
  if (c->epsilon_outside || c->variance_unbiased || c->gain_offset || c->cast_before_gain || c->mean || c->rstd) return NORMA_UNSUPPORTED;
  if (x.strides[2] != 1 || c->y->strides[2] != 1) return NORMA_UNSUPPORTED;
  if ((c->gamma && c->gamma->format != NORMA_F64) || (c->beta && c->beta->format != NORMA_F64)) return NORMA_UNSUPPORTED;
  const auto at = [](const norma_tensor* t, int64_t i, double none) { return t ? static_cast<const double*>(t->data)[i] : none; };
  for (int64_t i = 0; i < x.shape[0] * x.shape[1]; ++i) {
    const int64_t of_case = i / x.shape[1], channel = i % x.shape[1], n = x.shape[2];
    const double* from = static_cast<const double*>(x.data) + of_case * x.strides[0] + channel * x.strides[1];
    double* to = static_cast<double*>(c->y->data) + of_case * c->y->strides[0] + channel * c->y->strides[1];
    double sum = 0, squares = 0;
    for (int64_t k = 0; k < n; ++k) sum += from[k];
    const double mean = sum / static_cast<double>(n);
    for (int64_t k = 0; k < n; ++k) squares += (from[k] - mean) * (from[k] - mean);
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(n) + c->epsilon);
    for (int64_t k = 0; k < n; ++k) to[k] = (from[k] - mean) * rstd * at(c->gamma, channel, 1) + at(c->beta, channel, -0.0);
  }
  return NORMA_OK;
}

}  // namespace

extern "C" const norma_subject* norma_get_subject(void) {
  static const norma_subject subject{NORMA_SUBJECT_VERSION, "example in C++", "compute=f64 accumulate=f64", normalize};
  return &subject;
}
