// norma::simd, instrumented: every law in every severity, and in every call of one the very bits of norma::compute.
#include "norma/fuzz_target.h"
#include "norma/reference.h"
#include "norma/text.h"
#include "program/production.h"

namespace {

using namespace norma;
using namespace norma::properties;

// Elements from the first to the end of the last.
std::int64_t span_of(const View& view) {
  if (product(view.shape.begin(), view.shape.end()) == 0) return 0;
  std::int64_t span = 1;
  for (std::size_t a = 0; a < view.shape.size(); ++a) span += (view.shape[a] - 1) * view.strides[a];
  return span;
}

// Laws take a zero of either sign for right, and a tie broken either way. Here it is the bits; of NaNs, that it is one.
Status by_simd(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs, int threads) {
  ByRole<std::vector<std::byte>> memory;
  ByRole<View> right = outputs;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!outputs[role]) continue;
    memory[role].emplace(outputs[role]->data, outputs[role]->data + span_of(*outputs[role]) * info(outputs[role]->format).bytes());
    right[role]->data = memory[role]->data();
  }
  if (Status status = compute(spec, with_running(inputs, right), right); !status.ok()) return status;
  if (Status status = program::produce(spec, Mode::nearest_even, with_running(inputs, outputs), outputs,
                                       {.executor = threads == 0 ? nullptr : &program::kept_threads(threads)});
      !status.ok())
    return status;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!outputs[role]) continue;
    const Format format = outputs[role]->format;
    const auto nan = [&](Bits bits) { return decode(format, bits).kind == Kind::nan; };
    for (std::int64_t at = 0; at < static_cast<std::int64_t>(memory[role]->size()); at += info(format).bytes()) {
      const Bits got = load(format, outputs[role]->data + at), want = load(format, right[role]->data + at);
      if (got == want || (nan(got) && nan(want))) continue;
      return {Code::bad_tensor, std::string(name(role)) + " has " + to_hex(format, got) + " where norma::compute has " +
                                    to_hex(format, want) + ", " + std::to_string(at) + " bytes from its start"};
    }
  }
  return {};
}

const BuiltIn simd{"simd", "", std::string(program::correctly_rounded_words),
                   [](const Spec& spec, const auto& inputs, const auto& outputs) { return by_simd(spec, inputs, outputs, 0); }, by_simd};
FuzzTarget target(simd, "simd");

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  target.strict = true;
  return target.start();
}
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) { return target.run(data, size); }
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  return target.mutate(data, size, most, seed);
}
