// The inputs of real layers, recorded from a real model: the bits of the reference on them too.
#include <charconv>
#include <fstream>
#include <iterator>
#include <regex>

#include "trial.h"

namespace norma::simd {
namespace {

// As much of a safetensors file as these recordings need. That they are read right is what comparing their own y shows.
class Recording {
 public:
  explicit Recording(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (all.size() < 8) return;
    std::uint64_t length = 0;
    for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(all[static_cast<std::size_t>(i)]);
    header_ = all.substr(8, length);
    data_ = all.substr(8 + length);
  }
  [[nodiscard]] bool read() const { return !data_.empty(); }
  [[nodiscard]] std::string metadata(const std::string& key) const {
    std::smatch match;
    return std::regex_search(header_, match, std::regex("\"" + key + "\" *: *\"([^\"]*)\"")) ? match[1].str() : "";
  }
  [[nodiscard]] Tensor tensor(const std::string& name) const {
    std::smatch match;
    const std::regex entry("\"" + name +
                           R"re(" *: *\{"dtype" *: *"F32", *"shape" *: *\[([0-9, ]*)\], *"data_offsets" *: *\[(\d+), *(\d+)\])re");
    if (!std::regex_search(header_, match, entry)) return {};
    Shape shape;
    const std::string extents = match[1].str();
    const std::regex number("\\d+");
    for (std::sregex_iterator it(extents.begin(), extents.end(), number), end; it != end; ++it) shape.push_back(std::stoll(it->str()));
    Tensor t(Format::f32, shape);
    const std::size_t from = std::stoul(match[2].str());
    for (std::size_t i = 0; i < t.size(); ++i) t.set(i, load(Format::f32, reinterpret_cast<const std::byte*>(data_.data()) + from + 4 * i));
    return t;
  }

 private:
  std::string header_, data_;
};

Tensor reshaped(const Tensor& t, Shape shape) {
  Tensor result(t.format(), std::move(shape));
  for (std::size_t i = 0; i < result.size(); ++i) result.set(i, t.bits(i));
  return result;
}

TEST(SimdField, TheRecordedLayers) {
  for (const char* name : {"ln_0", "ln_1", "ln_2", "bn_1", "bn_3"}) {
    const std::string path = std::string(NORMA_SHARED "/field/") + name + ".safetensors";
    const Recording recording(path);
    ASSERT_TRUE(recording.read()) << "this test needs the recordings in " NORMA_SHARED "/field, and there is no " << path;
    const Tensor x = recording.tensor("x");
    Trial t;
    Call& c = t.call;
    const std::string op = recording.metadata("op");
    ASSERT_TRUE(op == "layer_norm" || op == "batch_norm_inference") << op;
    c.op = op == "layer_norm" ? Op::layer_norm : Op::batch_norm_inference;
    c.epsilon = std::strtod(recording.metadata("epsilon").c_str(), nullptr);
    ASSERT_GT(c.epsilon, 0);
    if (by_row(c)) {
      c.cols = static_cast<std::size_t>(x.shape().back());
      c.rows = x.size() / c.cols;
    } else {
      c.cases = static_cast<std::size_t>(x.shape()[0]);
      c.channels = static_cast<std::size_t>(x.shape()[1]);
      c.positions = x.size() / (c.cases * c.channels);
    }
    t.inputs[Role::x] = reshaped(x, shape_of(c));
    for (const Role role : {Role::gamma, Role::beta, Role::mean, Role::variance}) {
      if (by_row(c) && (role == Role::mean || role == Role::variance)) continue;
      t.inputs[role] = recording.tensor(std::string(norma::name(role)));
      ASSERT_EQ(t.inputs[role]->size(), parameters(c)) << norma::name(role) << " of " << path;
    }
    t.note = path;
    EXPECT_TRUE(equals_reference(t));
    // The recorded y is near: the tensors are what they seem.
    ByRole<Tensor> results;
    ASSERT_TRUE(run(t, results));
    const Tensor y = recording.tensor("y");
    ASSERT_EQ(y.size(), x.size());
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR((*results[Role::y])[i], y[i], 1e-4 * (1 + std::fabs(y[i]))) << path << " " << i;

    // What a runtime on 16 bits makes of it.
    for (const Format format : {Format::f16, Format::bf16}) {
      Trial small = t;
      small.call.format = format;
      small.fill(Role::x, t.inputs[Role::x]->values());
      EXPECT_TRUE(equals_reference(small));
    }
  }
}

}  // namespace
}  // namespace norma::simd
