/* norma/subject.h: what a shared library gives so that Norma can test it. C99; nothing to link.
 *
 * A subject is one library that exports one function:
 *
 *     const struct norma_subject* norma_get_subject(void);
 *
 * and answers calls through `normalize`. It runs in a process of its own: inputs are mapped read-only, every tensor lies against a page
 * that must not be touched, what else is beside it is all ones, and outputs are filled with a NaN before the call. One call at a time, from
 * one thread; the subject may start more. What it prints is shown only where it fails.
 *
 * Versions: a library compiled against version 1 works with every harness of major version 1. Structures may grow at their end, which
 * `size` tells; what a library does not know, it does not look at.
 */
#ifndef NORMA_SUBJECT_H_
#define NORMA_SUBJECT_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NORMA_SUBJECT_VERSION 1

/* What `normalize` answers. Unsupported is counted and shown, never taken for passed. */
enum { NORMA_OK = 0, NORMA_UNSUPPORTED = 1, NORMA_ERROR = 2 };

enum norma_op {
  NORMA_LAYER_NORM,
  NORMA_RMS_NORM,
  NORMA_BATCH_NORM_TRAINING,
  NORMA_BATCH_NORM_INFERENCE,
  NORMA_GROUP_NORM,
  NORMA_INSTANCE_NORM
};

enum norma_format { NORMA_F16, NORMA_BF16, NORMA_F32, NORMA_F64 };

/* A tensor in memory. strides count elements, as many as there are axes. data of an empty tensor may be anything. */
struct norma_tensor {
  int32_t format; /* enum norma_format */
  int32_t rank;
  const int64_t* shape;
  const int64_t* strides;
  void* data;
};

/* One normalization:  y = gamma * (x - mean) * rstd + beta,  rstd = 1/sqrt(variance + epsilon),  as `op` and the fields below say. */
struct norma_call {
  uint64_t size; /* sizeof(struct norma_call) where the harness was compiled */
  int32_t op;    /* enum norma_op */

  /* layer_norm, rms_norm: the first axis of the group, which goes on to the last; the others: the axis of the channels. Not negative. */
  int32_t axis;
  int64_t groups; /* of group_norm; otherwise 1 */
  double epsilon; /* >= 0 */
  double momentum;

  /* The semantics that are asked for; zero is the usual one. A subject that has another says NORMA_UNSUPPORTED. */
  int32_t epsilon_outside;   /* 1: 1/(sqrt(variance) + epsilon) */
  int32_t variance_unbiased; /* 1: y is made with the sum of squares over n - 1 */
  int32_t running_biased;    /* 1: running_variance takes the variance over n, not over n - 1 */
  int32_t momentum_of_old;   /* 1: running = momentum*running + (1 - momentum)*new; 0: (1 - momentum)*running + momentum*new */
  int32_t gain_offset;       /* 1: the gain is 1 + gamma */
  int32_t cast_before_gain;  /* 1: the standardized value is rounded to the format of y before the gain */

  /* Inputs; null where there is none. Read only. */
  const struct norma_tensor* x;
  const struct norma_tensor* gamma;          /* the shape of a group, or [channels] */
  const struct norma_tensor* beta;           /* the same */
  const struct norma_tensor* residual;       /* the shape of x; x + residual, rounded to the format of x, is normalized */
  const struct norma_tensor* given_mean;     /* batch_norm_inference: [channels] */
  const struct norma_tensor* given_variance; /* the same, without epsilon */

  /* Outputs; null where not wanted. */
  const struct norma_tensor* y;                /* the shape of x. Its data may be that of x, which is then writable */
  const struct norma_tensor* sum;              /* x + residual */
  const struct norma_tensor* mean;             /* one a group: the leading axes; [channels]; [cases, groups] */
  const struct norma_tensor* rstd;             /* 1/sqrt(variance + epsilon), the same shape */
  const struct norma_tensor* running_mean;     /* batch_norm_training: read, updated, written; [channels] */
  const struct norma_tensor* running_variance; /* the same */

  int32_t threads; /* how many to compute with, of a subject whose profile says `threads`; 0: as many as it likes */
};

struct norma_subject {
  uint32_t version; /* NORMA_SUBJECT_VERSION */
  const char* name; /* shown in reports */

  /* How it computes, in words separated by blanks: bounds and severities follow from it. Null or "" stands for
   *     compute=f32 accumulate=f32 algorithm=two_pass depth=n-1        (f64 for f64)
   * compute=f16|bf16|f32|f64|x    what a deviation, a product, a gain are computed in; x: the format of x. An x of a format that it
   *                               does not hold is not asked about
   * accumulate=f16|bf16|f32|f64   what sums are kept in; a mean may be rounded to the other before it is subtracted
   * algorithm=two_pass|single_pass|welford|correctly_rounded
   * depth=n-1|n/LANES|pairwise    roundings between an element and its finished sum: a loop, LANES partial sums, or halving
   * bitwise=LAW,LAW,...           laws that hold to the bit here by design: batch_independence, scale_invariance, alignment, threads
   * threads                       the call's number of threads is looked at
   * OP:compute=... and so on      of that op alone, after the words for all: batch_norm_training:algorithm=two_pass
   */
  const char* profile;

  /* Normalizes. NORMA_UNSUPPORTED and NORMA_ERROR may come with a sentence of less than `room` bytes in `message`. */
  int (*normalize)(const struct norma_call* call, char* message, size_t room);
};

const struct norma_subject* norma_get_subject(void);

#ifdef __cplusplus
}
#endif

#endif /* NORMA_SUBJECT_H_ */
