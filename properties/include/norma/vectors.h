// The golden cases: calls with their correctly rounded outputs and the intervals of an honest kernel, for tests in any language
// (golden/README.md).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "norma/case.h"
#include "norma/truth.h"

namespace norma::properties {

struct Vector {
  Case c{};
  std::string comment;  // where it comes from
};

// All of them, no two alike; those of a file together, in the order in which they are there. The same everywhere.
[[nodiscard]] std::vector<Vector> vectors();

// A case of the large tier, which is made on demand: up to 2^20 elements, of the seed and the number alone. The first `large_cases`, two of
// every op, format and shape, are more than 3 GB with their outputs and intervals.
inline constexpr std::int64_t large_cases = 480;
[[nodiscard]] Vector large_vector(std::uint64_t seed, std::int64_t number);

// The file that a case belongs to, without its folder and extension: its op and the format of x.
[[nodiscard]] std::string file_of(const Case& c);
// Its name, which no other case has or ever gets: it is made of the call.
[[nodiscard]] std::string id_of(const Case& c);

// How close an output is to the middle between two neighbours of its format, where rounding turns over.
struct Tie {
  double distance = 0.5;  // in ulp
  bool exact = false;     // it is that middle
};
// The closest element of y.
Tie closest_tie(const Case& c);

// What a case is a test of. Nobody writes it down: it is seen from the call and its exact outputs.
struct Flag {
  std::string_view name;
  std::string_view notes;    // what goes wrong there, for whom
  std::string_view claim;    // that the right value follows from
  std::string_view reports;  // public ones, of those who were bitten
  bool (*raised)(const Case& c, const Truth& truth, const Tie& tie);
};
[[nodiscard]] std::span<const Flag> flags();

// A call with what is right.
struct GoldenCase {
  std::string id, comment;
  std::vector<std::string> flags;
  bool must = true;  // an honest subject of the usual arithmetic is within the interval; else it may leave the range of its arithmetic
  Case c{};
  ByRole<Tensor> right{}, low{}, high{};  // outputs: correctly rounded, and the interval
};
// Computed anew, with all outputs that the op has.
Result<GoldenCase> golden_case(const Case& c, std::string_view comment);
// One line, as in a file; to_golden (case.h) is both at once. Read back, every key is there and no other, and every tensor has as many
// digits as its shape wants.
[[nodiscard]] std::string to_json(const GoldenCase& g);
Result<GoldenCase> parse_golden(std::string_view json);
// The same as tensors, ID.in.x, ID.out.y, ID.lo.y, ID.hi.y and so on, and metadata ID: the line without tensors. A file may have many.
void add_to(TensorFile& file, const GoldenCase& g);
[[nodiscard]] std::string tensor_name(std::string_view id, std::string_view kind, Role role);
Result<std::vector<GoldenCase>> golden_cases(TensorFile file);

// Whether a value is in its interval: a NaN where there is none but NaN, and a zero of either sign is one number.
[[nodiscard]] bool inside(Format format, Bits got, Bits low, Bits high);
// An output held against what is right: how many of its elements are correctly rounded, and the first one outside of its interval.
struct Comparison {
  std::int64_t right = 0;
  std::optional<std::int64_t> outside;
};
[[nodiscard]] Comparison compare(const Tensor& got, const Tensor& right, const Tensor& low, const Tensor& high);

// A case as one of ONNX's backend tests, a folder: model.onnx, of one node, and in test_data_set_0 its tensors input_K.pb, output_K.pb,
// and, beside what there is elsewhere, low_K.pb and high_K.pb. ONNX's epsilon and momentum are float32, and where x is f16 or bf16 some of
// its definitions round x̂: the outputs are those of the case that this makes. The same bytes everywhere.
struct OnnxTest {
  struct File {
    std::string path;  // in the folder
    std::string bytes;
  };
  std::vector<File> files;    // the model is the last
  std::string_view obstacle;  // why there are none: what ONNX cannot say
};
Result<OnnxTest> to_onnx(const GoldenCase& g);

// A file's text, of its cases.
[[nodiscard]] std::string golden_file(std::string_view name, const std::vector<std::string>& cases);

// All of them, as they are committed; `progress` is called once a case.
struct GoldenText {
  std::string name, text;
};
Result<std::vector<GoldenText>> golden_files(const std::vector<Vector>& all, const std::function<void()>& progress = {});

}  // namespace norma::properties
