/* examples/subject.c with one fault: large roots are a thousandth off. The fuzzer has to find it. */
#include <math.h>

static float rough_root(float v) { return sqrtf(v) * (v > 4096 ? 1.001f : 1); }
#define sqrtf rough_root
#include "../examples/subject.c"
