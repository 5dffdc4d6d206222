// The golden cases: calls with their correctly rounded outputs and the intervals of an honest kernel, for tests in any language
// (golden/README.md).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "norma/case.h"
#include "norma/truth.h"

namespace norma::properties {

struct Vector {
  Case c;
  std::string comment;  // where it comes from
};

// All of them, no two alike; those of a file together, in the order in which they are there. The same everywhere.
[[nodiscard]] std::vector<Vector> vectors();

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

// A case of a file, as it is there: to_golden (case.h) made it.
struct GoldenCase {
  std::string id, comment;
  bool must = true;  // an honest subject of the usual arithmetic is within the interval; else it may leave the range of its arithmetic
  Case c;
  ByRole<Tensor> right, low, high;  // outputs: correctly rounded, and the interval
};
// Every key is there and no other, every tensor has as many digits as its shape wants.
Result<GoldenCase> parse_golden(std::string_view json);

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

}  // namespace norma::properties
