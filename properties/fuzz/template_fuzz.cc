// A fuzz target of your own kernel, which has a norma_get_subject (norma/subject.h); examples/subject.c, for one:
//     clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address template_fuzz.cc kernel.o -lnorma_properties ...  (kernel.o with the same flags)
//     norma fuzz ./a.out --minutes 60 --corpus corpus
#include "norma/fuzz_target.h"
#include "norma/subject.h"

static norma::properties::FuzzTarget target(*norma_get_subject());
extern "C" int LLVMFuzzerInitialize(int*, char***) { return target.start(); }
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) { return target.run(data, size); }
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  return target.mutate(data, size, most, seed);
}
