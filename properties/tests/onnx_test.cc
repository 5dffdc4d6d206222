// Golden cases as ONNX says them: the bytes, what they are computed of, and what is left out.
#include <gtest/gtest.h>

#include <charconv>
#include <map>

#include "norma/vectors.h"

namespace norma::properties {
namespace {

GoldenCase golden(const std::string& line) {
  const Result<Case> c = parse_case(line);
  EXPECT_TRUE(c.ok()) << line << c.status().message;
  return *parse_golden(*to_golden(*c, "two"));
}

std::map<std::string, std::string> files_of(const std::string& line) {
  const Result<OnnxTest> test = to_onnx(golden(line));
  EXPECT_TRUE(test.ok() && test->obstacle.empty()) << line << ": " << test->obstacle;
  std::map<std::string, std::string> files;
  for (const OnnxTest::File& file : test->files) files[file.path] = file.bytes;
  return files;
}

// "0a 05 'scale'": bytes by two digits, or as what they spell.
std::string bytes(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    if (text[0] == '\'') {
      const std::size_t end = text.find('\'', 1);
      result += text.substr(1, end - 1);
      text.remove_prefix(end + 1);
    } else if (text[0] == ' ' || text[0] == '\n') {
      text.remove_prefix(1);
    } else {
      unsigned byte = 0;
      std::from_chars(text.data(), text.data() + 2, byte, 16);
      result += static_cast<char>(byte);
      text.remove_prefix(2);
    }
  }
  return result;
}

// By hand, from onnx.proto and the encoding of protocol buffers: a field is its number times 8, and 0 for an integer, 2 for what has a
// length, 5 for a float.
TEST(Onnx, ModelsAndTensorsAreTheseBytes) {
  const std::string line = "rms_norm f32 x=f32[1,2]:3f800000,40000000 epsilon=0x1p+0";
  const std::string id = golden(line).id;
  ASSERT_EQ(id.size(), 0x19U);
  const std::map<std::string, std::string> files = files_of(line);
  EXPECT_EQ(files.at("model.onnx"), bytes(R"(
08 0b
12 05 'norma'
32 03 'two'
3a b7 01
  0a 5b
    0a 01 'X' 0a 05 'scale' 12 01 'Y' 22 10 'RMSNormalization'
    2a 14 0a 04 'axis' 18 ff ff ff ff ff ff ff ff ff 01 a0 01 02
    2a 11 0a 07 'epsilon' 15 00 00 80 3f a0 01 01
    2a 11 0a 0a 'stash_type' 18 01 a0 01 02
  12 19 ')" + id + R"('
  5a 13 0a 01 'X' 12 0e 0a 0c 08 01 12 08 0a 02 08 01 0a 02 08 02
  5a 13 0a 05 'scale' 12 0a 0a 08 08 01 12 04 0a 02 08 02
  62 13 0a 01 'Y' 12 0e 0a 0c 08 01 12 08 0a 02 08 01 0a 02 08 02
42 04 0a 00 10 17
72 10 0a 08 'severity' 12 04 'must')"));
  EXPECT_EQ(files.at("test_data_set_0/input_0.pb"), bytes("08 01 08 02 10 01 42 01 'X' 4a 08 00 00 80 3f 00 00 00 40"));
  EXPECT_EQ(files.at("test_data_set_0/input_1.pb"), bytes("08 02 10 01 42 05 'scale' 4a 08 00 00 80 3f 00 00 80 3f"));
  // 1/√3.5 and 2/√3.5.
  EXPECT_EQ(files.at("test_data_set_0/output_0.pb"), bytes("08 01 08 02 10 01 42 01 'Y' 4a 08 77 d6 08 3f 77 d6 88 3f"));
  EXPECT_EQ(files.size(), 6U);
  EXPECT_EQ(to_onnx(golden(line))->files.back().path, "model.onnx");
}

// Outputs and intervals are those of the case that ONNX means.
void expect_outputs_of(const std::string& means, const std::string& line, std::initializer_list<Role> roles) {
  const std::map<std::string, std::string> files = files_of(line);
  const GoldenCase g = golden(means);
  int k = 0;
  for (const Role role : roles) {
    for (const auto& [kind, tensors] : {std::pair{"output", &g.right}, std::pair{"low", &g.low}, std::pair{"high", &g.high}}) {
      const std::vector<std::byte>& data = (*tensors)[role]->data;
      const std::string path = "test_data_set_0/" + std::string(kind) + "_" + std::to_string(k) + ".pb";
      const std::string bits(reinterpret_cast<const char*>(data.data()), data.size());
      ASSERT_TRUE(files.contains(path)) << line << ": " << path;
      EXPECT_TRUE(files.at(path).ends_with(bits)) << line << ": " << path;
    }
    ++k;
  }
  EXPECT_FALSE(files.contains("test_data_set_0/output_" + std::to_string(k) + ".pb")) << line;
}

TEST(Onnx, OutputsAreOfWhatItMeans) {
  // An epsilon of float32, and a gain of ones and a bias of zeros.
  const std::string pair = "instance_norm f64 x=f64[1,1,2]:3ff0000000000000,3ff0000000000001";
  expect_outputs_of(pair + " epsilon=0x1.99999ap-4", pair + " epsilon=0x1.999999999999ap-4", {Role::y});
  EXPECT_NE(golden(pair + " epsilon=0x1.99999ap-4").right[Role::y], golden(pair + " epsilon=0x1.999999999999ap-4").right[Role::y]);
  // x̂ is rounded where the definition says so, and only there; that is seen.
  const std::string x = "f16 x=f16[1,3]:3c00,4000,4880 epsilon=0x1p-3 gamma=f16[3]:3d33,3d33,3d33", cast = " cast_before_gain";
  expect_outputs_of("layer_norm " + x + cast, "layer_norm " + x, {Role::y, Role::mean, Role::rstd});
  expect_outputs_of("rms_norm " + x + cast, "rms_norm " + x, {Role::y});
  expect_outputs_of("rms_norm " + x + cast, "rms_norm " + x + cast, {Role::y});
  const std::string instance = "instance_norm f16 x=f16[1,1,3]:3c00,4000,4880 epsilon=0x1p-3 gamma=f16[1]:3d33";
  expect_outputs_of(instance, instance, {Role::y});
  for (const std::string& line : {"layer_norm " + x, "rms_norm " + x, instance}) {
    EXPECT_NE(golden(line).right[Role::y], golden(line + cast).right[Role::y]) << line;
  }
  // Running statistics, and a momentum of float32.
  const std::string batch =
      "batch_norm_training f64 x=f64[3,1]:3ff8000000000000,4000000000000000,4008000000000000 epsilon=0x1p-3 running_biased momentum_of_old "
      "running_mean=f64[1]:3ff8000000000000 running_variance=f64[1]:4000000000000000 want=y,running_mean,running_variance momentum=";
  expect_outputs_of(batch + "0x1.99999ap-4", batch + "0x1.999999999999ap-4", {Role::y, Role::running_mean, Role::running_variance});
}

TEST(Onnx, WhatItCannotSayHasAReason) {
  const std::string row = "layer_norm f32 x=f32[1,2]:3f800000,40000000", half = "layer_norm f16 x=f16[1,2]:3c00,4000";
  const std::string old = "batch_norm_training f32 x=f32[2,1]:3f800000,40000000 running_mean=f32[1]:3f800000";
  const std::vector<std::pair<std::string, const char*>> cases{
      {row + " residual=f32[1,2]:3f800000,40000000", "a residual"},
      {row + " epsilon_outside", "epsilon outside the root"},
      {row + " unbiased", "y by the unbiased variance"},
      {row + " gamma=f32[2]:3f800000,40000000 gain_offset", "a gain of 1 + gamma"},
      {row + " cast_before_gain", "x̂ rounded before the gain"},
      {"instance_norm f16 x=f16[1,1,2]:3c00,4000 cast_before_gain", "x̂ rounded before the gain"},
      {old, "running statistics by the unbiased variance"},
      {old + " running_biased", "a momentum that is the weight of the new"},
      {"rms_norm f32 x=f32[1,2]:3f800000,40000000 beta=f32[2]:3f800000,40000000", "a bias, which RMSNormalization has not"},
      {row + " gamma=f64[2]:3ff0000000000000,3ff0000000000000", "a format of its own"},
      {half + " gamma=f16[2]:3c00,4000 beta=f16[2]:3c00,4000", "between which ONNX rounds"},
      {"batch_norm_training f32 x=f32[1,2]:3f800000,40000000 axis=0", "channels on another axis than 1"},
      {"instance_norm f32 x=f32[1,2]:3f800000,40000000", "takes three or more"},
      {"batch_norm_training f32 x=f32[0,1]:", "the mean of no elements"},
      {row + " epsilon=0x1p-200", "that no float32 is near"},
      {row + " epsilon=0x1p+128", "that no float32 is near"},
      {"layer_norm f64 x=f64[1,1]:3ff0000000000000", "float64 in LayerNormalization"},
  };
  for (const auto& [line, reason] : cases) {
    const Result<OnnxTest> test = to_onnx(golden(line));
    ASSERT_TRUE(test.ok()) << line << test.status().message;
    EXPECT_NE(test->obstacle.find(reason), std::string_view::npos) << line << ": " << test->obstacle;
    EXPECT_TRUE(test->files.empty()) << line;
  }
  // These are nearly that.
  for (const std::string& line :
       {half + " gamma=f16[2]:3c00,4000", half + " beta=f16[2]:3c00,4000", half + " cast_before_gain",
        old + " running_biased momentum_of_old", row + " epsilon=0x0p+0", std::string("layer_norm f32 x=f32[0,3]:"),
        std::string("batch_norm_inference f32 x=f32[1,1]:3f800000 mean=f64[1]:3ff0000000000000 variance=f64[1]:3ff0000000000000")}) {
    EXPECT_EQ(to_onnx(golden(line))->obstacle, "") << line;
  }
}

}  // namespace
}  // namespace norma::properties
