/* layer_norm and rms_norm of float, loop by loop, as a subject:
 *     cc -std=c99 -O2 -shared -fPIC -I properties/include subject.c -o libsubject.so -lm
 *     norma check ./libsubject.so
 */
#include "norma/subject.h"

#include <math.h>

static const float* row_of(const struct norma_tensor* t, int64_t row) { return (const float*)t->data + row * t->strides[0]; }

static int normalize(const struct norma_call* c, char* message, size_t room) {
  const int centred = c->op == NORMA_LAYER_NORM;
  (void)message, (void)room;
  if (!centred && c->op != NORMA_RMS_NORM) return NORMA_UNSUPPORTED;
  if (c->x->rank != 2 || c->axis != 1 || c->x->format != NORMA_F32 || c->y->format != NORMA_F32) return NORMA_UNSUPPORTED;
  if ((c->gamma && c->gamma->format != NORMA_F32) || (c->beta && c->beta->format != NORMA_F32)) return NORMA_UNSUPPORTED;
  if (c->epsilon_outside || c->variance_unbiased || c->gain_offset || c->cast_before_gain || c->residual) return NORMA_UNSUPPORTED;
  if (c->mean || c->rstd) return NORMA_UNSUPPORTED;
  const int64_t n = c->x->shape[1];
  for (int64_t r = 0; r < c->x->shape[0]; ++r) {
    const float* x = row_of(c->x, r);
    float* y = (float*)row_of(c->y, r);
    float sum = 0, squares = 0;
    for (int64_t i = 0; i < n; ++i) sum += x[i];
    const float mean = centred ? sum / (float)n : 0;
    for (int64_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const float rstd = 1 / sqrtf(squares / (float)n + (float)c->epsilon);
    for (int64_t i = 0; i < n; ++i) {
      const float gain = c->gamma ? ((const float*)c->gamma->data)[i] : 1;
      y[i] = (x[i] - mean) * rstd * gain;
      if (c->beta) y[i] += ((const float*)c->beta->data)[i];
    }
  }
  return NORMA_OK;
}

const struct norma_subject* norma_get_subject(void) {
  static const struct norma_subject subject = {NORMA_SUBJECT_VERSION, "example in C", "algorithm=two_pass depth=n-1", normalize};
  return &subject;
}
