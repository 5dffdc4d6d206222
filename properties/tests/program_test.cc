// The program as its users meet it: words in, text and exit status out.
#include "program.h"

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <span>

namespace norma {
namespace {

using nlohmann::json;

Tensor tensor(std::string name, Shape shape, const std::vector<float>& values) {
  Tensor t{std::move(name), Format::f32, std::move(shape), {}};
  t.data.resize(values.size() * 4);
  for (std::size_t i = 0; i < values.size(); ++i) store(Format::f32, std::bit_cast<std::uint32_t>(values[i]), t.data.data() + 4 * i);
  return t;
}

// The correctly rounded layer norm of (1, 2, 3, 4), epsilon 1e-5.
const std::vector<float> walkthrough{-0x1.57756cp+0F, -0x1.c9f1e4p-2F, 0x1.c9f1e4p-2F, 0x1.57756cp+0F};

TEST_F(Program, JudgesTheFieldRecordingsAsAnIndependentOracleDid) {
  const fs::path field = fs::path(NORMA_SHARED) / "field";
  const std::string readme = contents(field / "README.md");
  ASSERT_FALSE(readme.empty()) << "this test needs the recordings in " << field << ", and there are none";
  const std::regex line(R"(`(\S+)` elements: (\d+), correctly_rounded: (\d+), max_ulp_error: (\S+), worst_index: (\d+))");
  int checked = 0;
  for (std::sregex_iterator it(readme.begin(), readme.end(), line), end; it != end; ++it, ++checked) {
    const std::string path = (field / (*it)[1].str()).string();
    const Outcome o = norma("judge " + path + " --json");
    ASSERT_EQ(o.status, 0) << o.err;
    const json j = json::parse(o.out);
    EXPECT_EQ(j["elements"].dump(), (*it)[2].str()) << path;
    EXPECT_EQ(j["correctly_rounded"].dump(), (*it)[3].str()) << path;
    EXPECT_EQ(j["max_ulp_error"].dump(), (*it)[4].str()) << path;
    EXPECT_EQ(j["worst_index"].dump(), (*it)[5].str()) << path;
    EXPECT_EQ(j["verdict"], "not_faithful") << path;
    const Outcome text = norma("judge " + path);
    EXPECT_NE(text.out.find("at most " + (*it)[4].str() + " ulp off"), std::string::npos) << text.out;
  }
  EXPECT_EQ(checked, 5);
}

TEST_F(Program, TheReadmeShowsWhatJudgePrints) {
  ASSERT_TRUE(fs::exists(fs::path(NORMA_SHARED) / "field"))
      << "this test needs the recordings in " NORMA_SHARED "/field, and there are none";
  const Outcome o = norma("judge ../shared/field/ln_2.safetensors", NORMA_SOURCE);
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(contents(fs::path(NORMA_SOURCE) / "README.md").find("```\n" + o.out + "```\n"), std::string::npos) << o.out;
}

TEST_F(Program, JudgeKnowsFourVerdicts) {
  const auto judged = [&](std::vector<float> y) {
    write("f.safetensors", {tensor("x", {4}, {1, 2, 3, 4}), tensor("y", {4}, y)}, {{"op", "layer_norm"}, {"epsilon", "1e-5"}});
    const Outcome o = norma("judge f.safetensors --json");
    json j = json::parse(o.out);
    j["exit"] = o.status;
    return j;
  };
  std::vector<float> y = walkthrough;
  json j = judged(y);
  EXPECT_EQ(j["verdict"], "correctly_rounded");
  EXPECT_EQ(j["correctly_rounded"], 4);
  EXPECT_EQ(j["exit"], 0);
  for (const char* key : {"op", "dtype", "elements", "correctly_rounded", "max_ulp_error", "worst_index", "max_margin", "verdict"}) {
    EXPECT_TRUE(j.contains(key)) << key;
  }
  y[1] = std::nextafter(y[1], -1.0F);  // 0.156 ulp on the other side of the truth becomes 0.844
  j = judged(y);
  EXPECT_EQ(j["verdict"], "faithful");
  EXPECT_EQ(j["correctly_rounded"], 3);
  EXPECT_EQ(j["worst_index"], 1);
  EXPECT_EQ(j["worst_position"], json({1}));
  y[1] = 0;
  j = judged(y);
  EXPECT_EQ(j["verdict"], "not_faithful");
  EXPECT_EQ(j["exit"], 0);
  y[2] = std::numeric_limits<float>::quiet_NaN();
  j = judged(y);
  EXPECT_EQ(j["verdict"], "violates");
  EXPECT_EQ(j["not_comparable"], 1);
  EXPECT_EQ(j["worst_index"], 2);
  EXPECT_EQ(j["exit"], 1);
}

TEST_F(Program, JudgesAuxiliaryOutputsAndOutputsInAFileOfTheirOwn) {
  write("in.npz", {tensor("x", {2, 2}, {1, 3, 5, 9})}, {});
  write("out.npz", {tensor("y", {2, 2}, {-1, 1, -1, 1}), tensor("mean", {2}, {2, 7}), tensor("rstd", {2, 1}, {1, 0.25F})}, {});
  const Outcome o = norma("judge in.npz --outputs out.npz --op layer_norm --epsilon 0 --json");
  ASSERT_EQ(o.status, 0) << o.err;
  const json j = json::parse(o.out);
  EXPECT_EQ(j["verdict"], "not_faithful");
  EXPECT_EQ(j["y_verdict"], "correctly_rounded");
  EXPECT_EQ(j["auxiliary"]["mean"]["verdict"], "correctly_rounded");
  EXPECT_EQ(j["auxiliary"]["rstd"]["verdict"], "not_faithful");  // the truth is 1/2
}

TEST_F(Program, JudgeKeepsAnyFiniteErrorComparable) {
  Tensor x{"x", Format::f64, {2}, std::vector<std::byte>(16)};
  Tensor y = x;
  y.name = "y";
  for (std::size_t i = 0; i < 2; ++i) store(Format::f64, std::bit_cast<Bits>(3.0), x.data.data() + 8 * i);
  store(Format::f64, std::bit_cast<Bits>(1e-15), y.data.data());  // 0 by right: more ulp away than a double can count
  write("flat.npz", {x, y}, {{"op", "layer_norm"}});
  const Outcome o = norma("judge flat.npz --json");
  EXPECT_EQ(o.status, 0);
  const json j = json::parse(o.out);
  EXPECT_EQ(j["verdict"], "not_faithful");
  EXPECT_EQ(j["not_comparable"], 0);
  EXPECT_EQ(j["max_ulp_error"], std::numeric_limits<double>::max());
}

TEST_F(Program, JudgeRequires) {
  std::vector<float> y = walkthrough;
  y[1] = std::nextafter(y[1], -1.0F);
  write("f.npz", {tensor("x", {4}, {1, 2, 3, 4}), tensor("y", {4}, y)}, {{"op", "layer_norm"}, {"epsilon", "1e-5"}});
  EXPECT_EQ(norma("judge f.npz").status, 0);
  EXPECT_EQ(norma("judge f.npz --require faithful").status, 0);
  EXPECT_EQ(norma("judge f.npz --require correctly_rounded").status, 1);
}

TEST_F(Program, TheVerdictOfAFileIsItsWorst) {
  write("f.npz", {tensor("x", {2}, {1, 3}), tensor("y", {2}, {-1, 1}), tensor("mean", {1}, {std::nanf("")})},
        {{"op", "layer_norm"}, {"epsilon", "0"}});
  const Outcome o = norma("judge f.npz --json");
  EXPECT_EQ(o.status, 1);
  EXPECT_EQ(json::parse(o.out)["verdict"], "violates");
  EXPECT_EQ(json::parse(o.out)["y_verdict"], "correctly_rounded");
}

TEST_F(Program, OptionsOverrideMetadataAndResultsMustNotContradictInputs) {
  const Tensor x = tensor("x", {2, 3}, {1, 2, 3, 4, 5, 9});
  write("nhwc.npz", {x}, {{"op", "batch_norm_training"}, {"layout", "NHWC"}});
  ASSERT_EQ(norma("run nhwc.npz --output out.npz --axis 0").status, 0);
  Result<TensorFile> out = read_tensor_file(at("out.npz"));
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->find("mean")->shape, Shape{2});
  EXPECT_EQ(out->metadata.at("axis"), "0");
  EXPECT_FALSE(out->metadata.contains("layout"));
  expect_refusal("judge nhwc.npz --outputs out.npz", {"out.npz", "axis", "layout"});
  EXPECT_EQ(norma("judge nhwc.npz --outputs out.npz --axis 0").status, 0);
  ASSERT_EQ(norma("run nhwc.npz --output same.npz").status, 0);
  EXPECT_EQ(norma("judge nhwc.npz --outputs same.npz").status, 0);
  write("plain.npz", {x}, {});
  EXPECT_EQ(norma("judge plain.npz --outputs same.npz").status, 0);  // what made the results is written in them
  write("other.npz", {x}, {{"op", "batch_norm_training"}, {"epsilon", "0.5"}});
  expect_refusal("judge other.npz --outputs same.npz", {"same.npz", "epsilon", "0.5"});
}

TEST_F(Program, AnyNumberOfEmptyGroupsIsNoWork) {
  const Shape shape{std::int64_t{1} << 57, 0};
  write("empty.safetensors", {tensor("x", shape, {}), tensor("y", shape, {})}, {{"op", "layer_norm"}});
  const Outcome o = norma("judge empty.safetensors --json");
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(json::parse(o.out)["elements"], 0);
  write("x.safetensors", {tensor("x", shape, {})}, {{"op", "layer_norm"}});
  EXPECT_EQ(norma("run x.safetensors --output out.safetensors").status, 0);
}

TEST_F(Program, RunComputesWhatJudgeFindsCorrectlyRounded) {
  const Tensor x = tensor("x", {2, 4, 3}, {1, 2, 4, 8, -3, 0.5F, 7, 1e20F, 1e-30F, 2, 2, 2, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, -1, -2});
  const Tensor gamma = tensor("gamma", {4}, {1, -2, 0, 3});
  const std::map<std::string, std::vector<Tensor>> calls{
      {"layer_norm --axis 1", {x}},
      {"rms_norm --gain-offset 1", {x, tensor("gamma", {3}, {1, -1, 2})}},
      {"batch_norm", {x, gamma, tensor("running_mean", {4}, {1, 2, 3, 4}), tensor("running_variance", {4}, {1, 2, 3, 4})}},
      {"batch_norm_training --layout NHWC", {x}},
      {"batch_norm_inference", {x, tensor("mean", {4}, {1, 2, 3, 4}), tensor("variance", {4}, {1, 0, 3, 4})}},
      {"group_norm --groups 2", {x, gamma, tensor("residual", {2, 4, 3}, std::vector<float>(24, 0.1F))}},
      {"instance_norm --epsilon-placement outside --variance-estimator unbiased", {x}},
      {"weight_norm", {x, tensor("gamma", {2, 1, 1}, {1, 2})}},
  };
  for (const auto& [call, tensors] : calls) {
    write("in.safetensors", tensors, {});
    Outcome o = norma("run in.safetensors --output out.safetensors --op " + call);
    ASSERT_EQ(o.status, 0) << call << "\n" << o.err;
    o = norma("judge in.safetensors --outputs out.safetensors --json --op " + call);
    ASSERT_EQ(o.status, 0) << call << "\n" << o.err;
    const json j = json::parse(o.out);
    EXPECT_EQ(j["verdict"], "correctly_rounded") << call;
    EXPECT_EQ(j["elements"], 24) << call;
    for (const auto& [role, tally] : j["auxiliary"].items()) EXPECT_EQ(tally["verdict"], "correctly_rounded") << call << " " << role;
  }
}

TEST_F(Program, RunSaysWhatMadeItsResults) {
  write("in.safetensors", {tensor("x", {1, 4}, {1, 2, 3, 4})}, {{"op", "rms_norm"}, {"epsilon", "0x1p-20"}});
  const Outcome o = norma("run in.safetensors --output out.npz --also xhat,deviation --dtype f16 --rounding up");
  ASSERT_EQ(o.status, 0) << o.err;
  Result<TensorFile> out = read_tensor_file(at("out.npz"));
  ASSERT_TRUE(out.ok()) << out.status().message;
  EXPECT_EQ(out->metadata.at("op"), "rms_norm");
  EXPECT_EQ(out->metadata.at("epsilon"), "0x1p-20");
  EXPECT_EQ(out->metadata.at("rounding"), "up");
  ASSERT_NE(out->find("y"), nullptr);
  EXPECT_EQ(out->find("y")->format, Format::f16);
  EXPECT_EQ(out->find("rstd")->format, Format::f32);
  EXPECT_NE(out->find("xhat"), nullptr);
  EXPECT_NE(out->find("deviation"), nullptr);
  EXPECT_EQ(out->find("mean"), nullptr);  // rms_norm has none
}

// Numbers between -4 and 4, the same in every run, some of them far away.
Tensor scattered(std::string name, Shape shape, Format format = Format::f32) {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  Tensor t{std::move(name), format, std::move(shape), {}};
  const auto bytes = static_cast<std::size_t>(info(format).bytes());
  t.data.resize(count * bytes);
  const int exponent = info(format).max_exponent();
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bits = (i + 1 + t.name.size()) * 0x9e3779b97f4a7c15U;
    bits ^= bits >> 32;
    // The exponent field: at most two above one, and few more than eight below.
    const std::uint64_t field =
        static_cast<std::uint64_t>(exponent + 1) - std::min<std::uint64_t>(bits % 9, static_cast<std::uint64_t>(exponent));
    const Bits fraction = (bits >> 8) & ((Bits{1} << info(format).fraction_bits()) - 1);
    const Bits sign = (bits >> 7 & 1) != 0 && t.name != "variance" && t.name != "running_variance" ? info(format).sign_bit() : 0;
    store(format, sign | field << info(format).fraction_bits() | fraction, t.data.data() + i * bytes);
  }
  return t;
}

TEST_F(Program, BothEnginesWriteTheSameBits) {
  const Shape map{3, 4, 5, 7};
  const Shape nhwc{3, 5, 7, 4};
  const Tensor gamma = scattered("gamma", {4});
  const Tensor beta = scattered("beta", {4});
  struct Case {
    std::string call;
    std::vector<Tensor> tensors;
    // The outputs that the production path has by now. When it gets another, this test fails until the name stands here.
    std::set<std::string> offered;
  };
  const std::set<std::string> all{"y", "mean", "rstd"};
  const std::vector<Case> cases{
      {"layer_norm", {scattered("x", {70, 300})}, all},
      {"layer_norm --axis 1", {scattered("x", {5, 3, 37}), scattered("gamma", {3, 37}), scattered("beta", {3, 37})}, all},
      {"layer_norm --epsilon 0", {scattered("x", {5, 3, 37}, Format::f16), scattered("gamma", {37}, Format::f16)}, all},
      {"layer_norm", {scattered("x", {9, 64}, Format::bf16), scattered("gamma", {64}), scattered("beta", {1, 64})}, all},
      {"layer_norm", {scattered("x", {9, 37}, Format::f64), scattered("gamma", {37}, Format::f64)}, all},
      {"layer_norm --also sum", {scattered("x", {9, 37}), scattered("residual", {9, 37})}, {"y", "mean", "rstd", "sum"}},
      {"rms_norm --gain-offset 1", {scattered("x", {9, 37}), scattered("gamma", {37})}, {"y", "rstd"}},
      {"rms_norm", {scattered("x", {9, 37}, Format::bf16), scattered("gamma", {37}, Format::bf16)}, {"y", "rstd"}},
      {"batch_norm",
       {scattered("x", map), gamma, beta, scattered("running_mean", {4}), scattered("running_variance", {4})},
       {"y", "mean", "rstd", "running_mean", "running_variance"}},
      {"batch_norm --layout NHWC", {scattered("x", nhwc, Format::f16), gamma, beta}, all},
      {"batch_norm --axis 0", {scattered("x", {4, 50}), gamma}, all},
      {"batch_norm", {scattered("x", map), gamma, beta, scattered("mean", {4}), scattered("variance", {1, 4, 1, 1})}, {"y", "rstd"}},
      {"batch_norm --layout NHWC", {scattered("x", nhwc), beta, scattered("mean", {4}), scattered("variance", {4})}, {"y", "rstd"}},
      {"group_norm --groups 2", {scattered("x", map), gamma, beta}, all},
      {"group_norm --groups 2 --layout NHWC", {scattered("x", nhwc), gamma, beta}, all},
      {"instance_norm", {scattered("x", map), gamma, beta}, all},
      {"instance_norm --layout NHWC", {scattered("x", nhwc), gamma}, all},
  };
  for (const Case& c : cases) {
    write("in.safetensors", c.tensors, {});
    ASSERT_EQ(norma("run in.safetensors --output right.safetensors --op " + c.call).status, 0) << c.call;
    Result<TensorFile> right = read_tensor_file(at("right.safetensors"));
    ASSERT_TRUE(right.ok()) << c.call;
    for (const std::string threads : {"1", "3"}) {
      fs::remove(at("out.safetensors"));
      const Outcome o = norma("run in.safetensors --output out.safetensors --engine simd --json --threads " + threads + " --op " + c.call);
      std::set<std::string> same;
      if (Result<TensorFile> out = read_tensor_file(at("out.safetensors")); o.status == 0 && out.ok()) {
        for (const Tensor& tensor : right->tensors) {
          const Tensor* const ours = out->find(tensor.name);
          if (ours != nullptr && *ours == tensor) same.insert(tensor.name);
        }
        if (!c.offered.empty()) {
          const json counters = json::parse(o.out)["counters"];
          EXPECT_GE(counters["vector"].get<int>() + counters["double_double"].get<int>() + counters["exact"].get<int>(),
                    json::parse(o.out)["elements"].get<int>())
              << c.call;
        }
      }
      EXPECT_EQ(same, c.offered) << c.call << ", " << threads << " threads\n" << o.err;
    }
  }
}

TEST_F(Program, TheProductionPathSaysWhatItDoesNotOffer) {
  const std::map<std::string, std::pair<std::vector<Tensor>, std::string>> calls{
      {"layer_norm --also xhat,deviation", {{scattered("x", {4, 6})}, "the output deviation"}},
      {"layer_norm --also variance", {{scattered("x", {4, 6})}, "the output variance"}},
      {"layer_norm --also sum", {{scattered("x", {4, 6})}, "sum without residual"}},
      {"layer_norm --rounding up", {{scattered("x", {4, 6})}, "rounding other than nearest_even"}},
      {"layer_norm --dtype f16", {{scattered("x", {4, 6})}, "y in f16 with x in f32"}},
      {"layer_norm --epsilon-placement outside", {{scattered("x", {4, 6})}, "epsilon_placement outside"}},
      {"layer_norm --variance-estimator unbiased", {{scattered("x", {4, 6})}, "variance_estimator unbiased"}},
      {"layer_norm --cast-before-gain true", {{scattered("x", {4, 6})}, "cast_before_gain"}},
      {"layer_norm --residual-sum exact", {{scattered("x", {4, 6}), scattered("residual", {4, 6})}, "residual_sum exact"}},
      {"layer_norm --axis -1", {{scattered("x", {4, 6}), scattered("gamma", {4, 6})}, "gamma of shape [4, 6], not [6]"}},
      {"rms_norm --axis 0", {{scattered("x", {4, 6}), scattered("gamma", {6})}, "gamma of shape [6], not [4, 6]"}},
      {"rms_norm", {{scattered("x", {4, 6}), scattered("gamma", {6}, Format::f16)}, "gamma in f16 with x in f32"}},
      {"layer_norm --epsilon 1",
       {{scattered("x", {4, 6}, Format::f16), scattered("gamma", {6}), scattered("beta", {6}, Format::f16)},
        "beta in f16 beside gamma in f32"}},
      {"rms_norm --epsilon 1", {{scattered("x", {4, 6}, Format::f8_e4m3)}, "x in f8_e4m3"}},
      {"weight_norm", {{scattered("x", {4, 6})}, "weight_norm"}},
      {"batch_norm", {{scattered("x", {4, 6}), scattered("residual", {4, 6})}, "residual of batch_norm_training"}},
      {"instance_norm --axis 2", {{scattered("x", {4, 6, 2, 3})}, "the channel axis 2"}},
  };
  for (const auto& [call, because] : calls) {
    write("in.safetensors", because.first, {});
    EXPECT_EQ(norma("run in.safetensors --output out.safetensors --op " + call).status, 0) << call;
    expect_refusal("run in.safetensors --output out.safetensors --engine simd --op " + call,
                   {"in.safetensors", because.second, "--engine reference computes it"});
  }
  // What makes no sense is refused as the reference refuses it.
  write("in.safetensors", {scattered("x", {4, 6}), scattered("gamma", {5})}, {});
  for (const std::string engine : {"simd", "reference"}) {
    const std::string run = "run in.safetensors --output out.safetensors --engine " + engine;
    expect_refusal(run + " --op layer_norm", {"in.safetensors", "gamma has shape [5]: expected [6]"});
    expect_refusal(run + " --op batch_norm", {"in.safetensors", "gamma has shape [5]: expected [6]"});
    expect_refusal(run + " --op layer_norm --axis 2", {"axis 2", "-2 to 1"});
  }
  expect_refusal("run in.safetensors --output out.safetensors --op layer_norm --threads 2", {"--threads", "--engine simd"});
  expect_refusal("run in.safetensors --output out.safetensors --op layer_norm --accuracy fast", {"--accuracy", "--engine simd"});
  expect_refusal("run in.safetensors --output out.safetensors --op layer_norm --engine simd --threads 0", {"--threads"});
}

// All numbers of a JSON value, by a function.
void each_number(const json& value, const std::function<void(double)>& see) {
  if (value.is_number()) see(value.get<double>());
  if (value.is_structured()) {
    for (const json& part : value) each_number(part, see);
  }
}

TEST_F(Program, BenchMeasures) {
  const Outcome o = norma("bench --shape 8x32 --rounds 15 --json");
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(o.err, "");
  const json j = json::parse(o.out);
  EXPECT_GE(j["measurements"].size(), 2U);  // layer_norm and rms_norm, on one thread and on all
  EXPECT_EQ(j["rounds"], 15);
  for (const char* part : {"measurements", "geometric_means", "small_calls"}) {
    int numbers = 0;
    each_number(j[part], [&](double value) {
      ++numbers;
      EXPECT_TRUE(std::isfinite(value) && value > 0) << part << " " << value;
    });
    EXPECT_GT(numbers, 0) << part;
  }
  for (const json& m : j["measurements"]) {
    EXPECT_EQ(m["shape"], "8x32");
    for (const char* variant : {"memcpy", "correctly_rounded", "fast"}) EXPECT_TRUE(m["elements_per_second"].contains(variant)) << variant;
    EXPECT_TRUE(m["ratios"].contains("correctly_rounded/memcpy"));
  }
  for (const char* key : {"processor", "instruction_set", "compiler"}) EXPECT_NE(j["machine"][key], "") << key;
}

TEST_F(Program, BenchPrintsTables) {
  const std::string call = "bench --op rms_norm --dtype bf16 --shape 8x32,4x64 --threads 1 --accuracy correctly_rounded";
  const Outcome text = norma(call);
  ASSERT_EQ(text.status, 0) << text.err;
  for (const char* word : {"rms_norm bf16, 1 thread", "8x32", "4x64", "geometric mean", "0x1"}) {
    EXPECT_NE(text.out.find(word), std::string::npos) << word << "\n" << text.out;
  }
  EXPECT_EQ(text.out.find("fast"), std::string::npos) << text.out;
  const Outcome markdown = norma(call + " --markdown");
  ASSERT_EQ(markdown.status, 0) << markdown.err;
  EXPECT_NE(markdown.out.find("| shape | memcpy | correctly_rounded | /memcpy |\n|---|---:|---:|---:|\n| 8x32 |"), std::string::npos)
      << markdown.out;
}

TEST_F(Program, BenchTakesMapsInBothLayouts) {
  const Outcome o = norma("bench --shape 2x32x3x3 --threads 1 --accuracy fast --json");
  ASSERT_EQ(o.status, 0) << o.err;
  std::set<std::string> measured;
  const json j = json::parse(o.out);
  for (const json& m : j["measurements"]) measured.insert(m["op"].get<std::string>() + " " + m["layout"].get<std::string>());
  std::set<std::string> expected;
  for (const std::string op : {"batch_norm_training", "batch_norm_inference", "group_norm"})
    expected.merge(std::set{op + " NCHW", op + " NHWC"});
  EXPECT_EQ(measured, expected);
}

TEST_F(Program, BenchAgainstOneDnnWorksOrSaysHowToGetIt) {
  const Outcome o = norma("bench --against onednn --op layer_norm --shape 8x32 --threads 1 --json");
  if (o.status == 0) {
    EXPECT_GT(json::parse(o.out)["measurements"][0]["ratios"]["fast/onednn"], 0);
    EXPECT_NE(json::parse(o.out)["machine"]["onednn"], "");
  } else {
    EXPECT_EQ(o.status, 3);
    EXPECT_EQ(o.out, "");
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    EXPECT_NE(o.err.find("libdnnl-dev"), std::string::npos) << o.err;
  }
}

TEST_F(Program, BenchRefuses) {
  for (const std::string shape : {"8", "8x", "x8", "8x0", "8xsoup", "99999999x99999999", "8x32x", "-8x32"}) {
    expect_refusal("bench --shape=" + shape, {"--shape", shape, "64x768"});
  }
  expect_refusal("bench --op soup", {"--op", "soup", "layer_norm"});
  expect_refusal("bench --op layernorm", {"did you mean layer_norm?"});
  expect_refusal("bench --op weight_norm", {"weight_norm"});
  expect_refusal("bench --rounds 3", {"--rounds", "3", "15"});
  expect_refusal("bench --rounds soup", {"--rounds", "soup"});
  expect_refusal("bench --dtype f8_e4m3", {"--dtype", "f8_e4m3", "bf16"});
  expect_refusal("bench --threads 0", {"--threads", "\"0\"", "all"});
  expect_refusal("bench --accuracy perfect", {"--accuracy", "perfect"});
  expect_refusal("bench --against itself", {"--against", "itself"});
  expect_refusal("bench --op group_norm --groups 5 --shape 4x64x2x2", {"--groups 5", "64 channels"});
  expect_refusal("bench --json --markdown", {"--json", "--markdown"});
}

TEST_F(Program, ExplainsTheWalkthrough) {
  const Outcome o = norma("explain --op layer_norm 1 2 3 4 --gamma 2 --beta 1 --json");
  ASSERT_EQ(o.status, 0) << o.err;
  const json g = json::parse(o.out)["groups"][0];
  EXPECT_EQ(g["mean"]["exact"], "5/2");
  EXPECT_EQ(g["variance"]["exact"], "5/4");
  EXPECT_EQ(g["elements"][0]["deviation"]["exact"], "-3/2");
  EXPECT_EQ(g["elements"][0]["squared"]["exact"], "9/4");
  EXPECT_EQ(g["elements"][0]["squeezed"]["exact"], "-√(9/5)");
  EXPECT_EQ(g["elements"][1]["squeezed"]["decimal"], "-0.44721359549995793928");
  std::vector<std::string> y;
  for (const json& e : g["elements"]) y.push_back(e["y"]["decimal"].get<std::string>().substr(0, 7));
  EXPECT_EQ(y, (std::vector<std::string>{"-1.6832", "0.10557", "1.89442", "3.68327"}));
  const Outcome text = norma("explain 1 2 3 4");
  for (const char* word : {"Centre", "Squeeze", "Guard", "Restyle", "mean = 5/2 = 2.5", "-√(9/5) = -1.3416407864998738178", "0xbfabbab6"}) {
    EXPECT_NE(text.out.find(word), std::string::npos) << word << "\n" << text.out;
  }
}

TEST_F(Program, ExplainsATableDownItsColumns) {
  const Outcome o = norma("explain --op batch_norm 1 10 / 5 20 / 9 90 --epsilon 0 --json");
  ASSERT_EQ(o.status, 0) << o.err;
  const json j = json::parse(o.out);
  ASSERT_EQ(j["groups"].size(), 2U);
  EXPECT_EQ(j["groups"][0]["mean"]["exact"], "5");
  EXPECT_EQ(j["groups"][0]["variance"]["exact"], "32/3");
  EXPECT_EQ(j["groups"][0]["elements"][0]["y"]["exact"], "-√(3/2)");
  EXPECT_EQ(j["groups"][0]["elements"][1]["y"]["exact"], "0");
  EXPECT_EQ(j["groups"][1]["mean"]["exact"], "40");
  EXPECT_NE(norma("explain --op batch_norm 1 10 / 5 20 / 9 90").out.find("column 2 of 2"), std::string::npos);
}

TEST_F(Program, ExplainsFlatRowsAndEveryOp) {
  const json flat = json::parse(norma("explain 5 5 5 5 --json").out)["groups"][0]["elements"][0];
  EXPECT_EQ(flat["squeezed"]["exact"], "nan");  // 0/0 without epsilon
  EXPECT_EQ(flat["y"]["exact"], "0");
  const std::map<std::string, std::vector<std::string>> calls{
      {"--op rms_norm 2 4 6 8 --epsilon 0", {"√(2/15)", "√(8/15)", "√(6/5)", "√(32/15)"}},
      {"--op group_norm --groups 2 1 2 3 7 --epsilon 0", {"-1", "1", "-1", "1"}},
      {"--op instance_norm 1 2 3 --epsilon 0", {"-√(3/2)", "0", "√(3/2)"}},
      {"--op weight_norm 3 4 --gamma 10", {"6", "8"}},
      {"--op batch_norm_inference 1 2 / 3 4 --mean 1,2 --variance 4,9 --epsilon 0", {"0", "1", "0", "2/3"}},
      {"--op layer_norm --shape 2,2 1 3 5 7 --axis 0 --epsilon 0 --gamma 1", {"-√(9/5)", "-√(1/5)", "√(1/5)", "√(9/5)"}},
      {"--epsilon-placement outside --epsilon 1 1 3", {"-1/2", "1/2"}},
      {"--format bf16 0.1 1/3 -inf -.5", {"nan", "nan", "nan", "nan"}},
      {"--cast-before-gain true --format f16 --epsilon 0 1 2 3 --gamma 1,1,2", {"-627/512", "0", "627/256"}},
      {"--op rms_norm 1 1 --residual 3,-1 --epsilon 0", {"√2", "0"}},
  };
  for (const auto& [call, expected] : calls) {
    const Outcome text = norma("explain " + call);
    EXPECT_EQ(text.status, 0) << call << "\n" << text.err;
    EXPECT_NE(text.out.find("Restyle"), std::string::npos) << call;
    const Outcome o = norma("explain --json " + call);
    ASSERT_EQ(o.status, 0) << call << o.err;
    std::vector<std::string> y;
    const json j = json::parse(o.out);
    for (const json& group : j["groups"]) {
      for (const json& e : group["elements"]) y.push_back(e["y"]["exact"]);
    }
    EXPECT_EQ(y, expected) << call;
  }
}

TEST_F(Program, ChecksWhatHolds) {
  const Outcome o = norma("check simd --cases 5 --junit report.xml");
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_NE(o.out.find("agrees_with_reference"), std::string::npos);
  const std::string xml = contents(at("report.xml"));
  EXPECT_TRUE(xml.starts_with("<?xml")) << xml;
  EXPECT_NE(xml.find("failures=\"0\""), std::string::npos) << xml;
}

TEST_F(Program, CheckShowsTheSmallestCaseAndReplaysIt) {
  const Outcome o = norma("check mutant:unbiased-variance --law variance_one --json");
  EXPECT_EQ(o.status, 1);
  const json j = json::parse(o.out);
  EXPECT_EQ(j["verdict"], "violated");
  EXPECT_GE(j["must_violations"], 1);
  const json& finding = j["laws"][0]["findings"][0];
  const std::string line = finding["case"];
  EXPECT_EQ(norma("check mutant:unbiased-variance --law variance_one --case '" + line + "'").status, 1);
  EXPECT_EQ(norma("check reference --law variance_one --case '" + line + "'").status, 0);
  // As a command, as printed.
  const std::string command = finding["command"];
  ASSERT_TRUE(command.starts_with("norma check ")) << command;
  EXPECT_EQ(norma(command.substr(6)).status, 1);
  const Outcome text = norma("check mutant:unbiased-variance --law variance_one");
  EXPECT_NE(text.out.find("✗ variance_one"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find(command), std::string::npos) << text.out;
  EXPECT_NE(norma("check mutant:unbiased-variance --law variance_one --markdown").out.find("| ✗ variance_one | must |"), std::string::npos);
}

TEST_F(Program, TheReadmeShowsWhatCheckPrints) {
  const Outcome o = norma("check mutant:epsilon-outside-root --law variance_one");
  const std::size_t start = o.out.find("✗ variance_one"), end = o.out.find("\n\n", start);
  ASSERT_NE(end, std::string::npos) << o.out;
  EXPECT_NE(contents(NORMA_SOURCE "/README.md").find(o.out.substr(start, end - start)), std::string::npos) << o.out;
}

TEST_F(Program, DiagnosesWhatIsComputedInstead) {
  const Outcome o = norma("diagnose mutant:epsilon-outside-root --op layer_norm");
  EXPECT_EQ(o.status, 1);
  const std::size_t end = o.out.find("\n  it would") == std::string::npos ? o.out.find("\n  for instance") : o.out.find("\n  it would");
  ASSERT_NE(end, std::string::npos) << o.out;
  EXPECT_NE(contents(NORMA_SOURCE "/README.md").find(o.out.substr(0, end)), std::string::npos) << o.out;
  const nlohmann::json j = nlohmann::json::parse(norma("diagnose mutant:tail-dropped --op rms_norm --dtype f32 --cases 200 --json").out);
  EXPECT_EQ(j["ops"][0]["verdict"], "explained");
  EXPECT_EQ(j["ops"][0]["explanations"][0]["name"], "tail-dropped");
  const Outcome right = norma("diagnose simd --cases 40");
  EXPECT_EQ(right.status, 0) << right.out;
  EXPECT_NE(right.out.find("rms_norm: agrees with the definition"), std::string::npos) << right.out;
  EXPECT_EQ(norma("diagnose no-such-subject").status, 2);
  // Where nothing is promised, nothing is wrong, nor explained.
  const std::string plain = "diagnose plain --op layer_norm --cases 200";
  const Outcome range = norma(plain);
  EXPECT_EQ(range.status, 0) << range.out;
  EXPECT_NE(range.out.find("beyond the range of its arithmetic, of which nothing is promised\n  for instance layer_norm "),
            std::string::npos)
      << range.out;
  EXPECT_EQ(nlohmann::json::parse(norma(plain + " --json").out)["ops"][0]["verdict"], "out_of_range");
}

TEST_F(Program, CheckStrictMinds) {
  const std::string words = "check mutant:zero-unsigned --law signed_zero --cases 300";
  EXPECT_EQ(norma(words).status, 0);
  EXPECT_EQ(norma(words + " --strict").status, 1);
}

TEST_F(Program, CheckShowsWhichLawFindsWhichMutant) {
  const std::string words = "check mutant:all --law mean_zero,deterministic --cases 60 --seeds 2";
  const Outcome o = norma(words + " --json");
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  const json j = json::parse(o.out);
  EXPECT_EQ(j["verdict"], "holds");
  ASSERT_EQ(j["laws"].size(), 2U);
  ASSERT_EQ(j["mutants"].size(), 4U) << "those that these laws mean";
  bool there = false;
  for (const json& m : j["mutants"]) {
    const std::string name = m["mutant"], law = m["law"];
    EXPECT_EQ(m["found_by"].at(law)["seeds"], 2) << name;
    there |= name == "another-order-every-time" && !m["found_by"].contains("mean_zero");
  }
  EXPECT_TRUE(there) << o.out;
  const Outcome text = norma(words);
  EXPECT_EQ(text.status, 0);
  EXPECT_NE(text.out.find("alone: another-order-every-time"), std::string::npos) << text.out;
  // One case is not enough to find them all: who survives is named.
  const Outcome alive = norma("check mutant:all --law tails --cases 1");
  EXPECT_EQ(alive.status, 1) << alive.out;
  EXPECT_NE(alive.out.find("SURVIVES at 1 of 1 seeds"), std::string::npos) << alive.out;
  expect_refusal("check mutant:all --law bounded_output", {"--law", "no mutant"});
  expect_refusal("check mutant:all --html page.html", {"--html: mutant:all takes", "--json"});
  expect_refusal("check mutant:all --shard 1/2", {"--shard: mutant:all takes"});
}

TEST_F(Program, CheckRefuses) {
  expect_refusal("check smid", {"there is no subject \"smid\", did you mean simd?", "norma list subjects"});
  expect_refusal("check mutant:tail-droped", {"did you mean tail-dropped?", "norma list mutants"});
  expect_refusal("check simd --law mean_zeor", {"--law", "did you mean mean_zero?"});
  expect_refusal("check simd --op layernorm", {"--op", "did you mean layer_norm?"});
  expect_refusal("check simd --dtype f8_e4m3", {"--dtype", "f32, f16, bf16, f64"});
  expect_refusal("check simd --shard 3/2", {"--shard", "I/N"});
  expect_refusal("check simd --case 'layer_norm f32 x=f32[1]:3f800000'", {"--case", "--law"});
  expect_refusal("check simd --law mean_zero --case 'layer_norm f32 x=f32[1]:3f8'", {"--case", "8 hexadecimal digits"});
  expect_refusal("check simd --law mean_zero --case 'layer_norm f32 x=f32[1]:3f800000' --html page.html", {"--case", "--html"});
  // A case that a law is not about, or that is no call at all.
  for (const char* what : {"--law batch_independence --case 'layer_norm f32 x=f32[0,3]: epsilon=0x1p+0'",
                           "--law agrees_with_reference --case 'layer_norm f32 x=f32[1,1]:3f800000 epsilon=nan'",
                           "--law agrees_with_reference --case 'layer_norm f32 x=f32[1,2]:3f800000*2 axis=5'",
                           "--law tails --case 'group_norm f32 x=f32[1,4,1]:3f800000*4 groups=8'",
                           "--law gain_power_of_two --case 'layer_norm f32 x=f32[1,2]:3f800000,00000000'",
                           "--law no_leak --case 'layer_norm f32 x=f32[]:3f800000 epsilon=0x1p+0'",
                           "--law running_update --case 'layer_norm f32 x=f32[1,1]:3f800000 epsilon=0x1p+0'"}) {
    expect_refusal("check simd " + std::string(what), {"--case", "cannot be asked"});
  }
  expect_refusal("check simd --law running_update --op layer_norm", {"no law to ask"});
  expect_refusal("check mutant:all --law running_update --op layer_norm", {"no law to ask"});
  expect_refusal("check simd --cases 3 --shard 5/9", {"--shard", "3 cases"});
  expect_refusal("check simd --shard 99999999999999999999/2", {"--shard", "I/N"});
  for (const char* command : {"check simd", "diagnose simd", "fuzz simd"}) {
    for (const char* seed : {"-1", "18446744073709551616", "1e3", "1.5", "0x8", "''"}) {
      expect_refusal(command + std::string(" --seed ") + seed, {"--seed", "whole number"});
    }
    expect_refusal(command + std::string(" --time nan"), {"--time", "nan"});
    expect_refusal(command + std::string(" --time 0"), {"--time", "0.01"});
  }
  expect_refusal("fuzz simd --minutes nan", {"--minutes", "nan"});
  EXPECT_NE(norma("check reference --law mean_zero --cases 010").out.find("mean_zero  must        10  holds"), std::string::npos);
  for (const char* option : {"check simd --html ''", "check simd --junit ''", "check simd --waivers ''", "fuzz simd --corpus ''"}) {
    expect_refusal(option, {"expected a name, not \"\""});
  }
  expect_refusal("check 'exec: '", {"exec: expected a command"});
  expect_refusal("check simd --law mean_zero --case @nowhere", {"--case: nowhere: cannot be opened"});
  // Nothing is started for a case that is none.
  expect_refusal("check 'exec:touch started; exit 1' --law mean_zero --case x", {"--case"});
  EXPECT_FALSE(fs::exists(at("started")));
  expect_refusal("check simd --seeds 2", {"--seeds", "mutant:all only"});
  expect_refusal("check simd --junit nowhere/report.xml", {"nowhere/report.xml", "cannot be written"});
  expect_refusal("check simd --json --markdown", {"--json", "--markdown"});
  expect_refusal("check simd --junit /dev/null", {"/dev/null", "regular file"});
  expect_refusal("check simd --cases 0", {"--cases"});
  for (const std::string words : {"check ./nowhere.so", "check 'exec:exit 3'"}) {
    const Outcome o = norma(words);
    EXPECT_EQ(o.status, 3) << words;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  }
}

// Within 5 s, and by one line.
TEST_F(Program, ReportsTheDead) {
  const std::string greets = "head -c $(head -c 8 | od -An -tu8) >/dev/null; printf \"\\050\\0\\0\\0\\0\\0\\0\\0\\040\\0\\0\\0\\0\\0\\0\\0";
  const std::string hello = greets + R"({\"__metadata__\":{\"name\":\"mute\"}}"; )";
  for (const auto& [words, status, says] :
       {std::tuple{std::string("check 'exec:sleep 1000'"), 3, "no answer within 4000 ms of doing nothing"},
        {"check 'exec:" + hello + "sleep 1000'", 1, "the search ended early: 2 calls hung"},
        {"check 'exec:" + hello + "exit 5'", 1, "the search ended early: 10 calls crashed"},
        {"fuzz 'exec:" + hello + "exit 5'", 1, "the search ended early: 10 calls crashed"}}) {
    const auto begin = std::chrono::steady_clock::now();
    const Outcome o = norma(words);
    EXPECT_EQ(o.status, status) << words << o.err;
    EXPECT_NE(o.err.find(says), std::string::npos) << o.err;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(7500)) << words;
  }
}

// A case that is too long for a word of a command is in a file.
TEST_F(Program, ChecksACaseOfAFile) {
  std::string line = "layer_norm f32 x=f32[1,40000]:";
  for (int i = 0; i < 20000; ++i) line += i == 0 ? "3f800000,40000000" : ",3f800000,40000000";
  line += '\n';
  ASSERT_TRUE(write_file(at("case"), std::as_bytes(std::span(line))).ok());
  const Outcome o = norma("check mutant:tail-dropped --law agrees_with_reference --case @case");
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_EQ(norma("check mutant:unbiased-variance --law agrees_with_reference --case @case").out.substr(0, 22), "agrees_with_reference:");
  // What is not supported is not right.
  const Outcome none = norma("check " NORMA_EXAMPLE_C " --law agrees_with_reference --case 'group_norm f16 x=f16[1,2]:3c00,4000 groups=1'");
  EXPECT_EQ(none.status, 1);
  EXPECT_EQ(none.out.substr(0, 34), "agrees_with_reference: unsupported");
  EXPECT_EQ(norma("check " NORMA_EXAMPLE_C " --op batch_norm --law range,tails --cases 5 --junit u.xml").status, 1);
  EXPECT_NE(contents(at("u.xml")).find("failures=\"1\" errors=\"0\" skipped=\"2\""), std::string::npos) << contents(at("u.xml"));
  EXPECT_NE(contents(at("u.xml")).find("<failure message=\"no law was tested\"/>"), std::string::npos);
}

// Who makes a number of NaN fails, not only where nothing is promised.
TEST_F(Program, ANumberOutOfNaNFails) {
  for (const std::string mutant : {"nan-swallowed", "nan-variance-is-zero", "infinities-clamped"}) {
    EXPECT_EQ(norma("check mutant:" + mutant + " --law non_finite_contained").status, 1) << mutant;
  }
}

TEST_F(Program, FuzzSharesAddUp) {
  std::map<std::string, int> cases, answers;
  for (const std::string shard : {"1/1", "1/3", "2/3", "3/3"}) {
    const Outcome o = norma("fuzz reference --cases 40 --shard " + shard);
    EXPECT_EQ(o.status, 0) << o.out << o.err;
    EXPECT_TRUE(o.out.starts_with("reference is not instrumented: random search")) << o.out;
    const std::size_t at = o.out.find("holds: ");
    ASSERT_NE(at, std::string::npos) << o.out;
    double seconds = 0;
    ASSERT_EQ(std::sscanf(o.out.c_str() + at, "holds: %d cases in %lf s, %d answers", &cases[shard], &seconds, &answers[shard]), 3)
        << o.out;
  }
  EXPECT_EQ(cases["1/1"], 40);
  EXPECT_EQ(cases["1/3"] + cases["2/3"] + cases["3/3"], 40);
  EXPECT_GT(answers["1/1"], 40);
  EXPECT_EQ(answers["1/3"] + answers["2/3"] + answers["3/3"], answers["1/1"]);
}

TEST_F(Program, FuzzFromACorpusAndBack) {
  const std::string fuzz = "fuzz mutant:unbiased-variance --op layer_norm --corpus corpus --cases 60";
  const auto count = [&] { return std::distance(fs::directory_iterator(at("corpus")), fs::directory_iterator()); };
  EXPECT_EQ(norma("fuzz reference --op layer_norm --cases 1 --corpus corpus").status, 0);
  const auto seeds = count();
  EXPECT_GT(seeds, 400);
  const Outcome o = norma(fuzz);
  EXPECT_EQ(o.status, 1) << o.out << o.err;
  EXPECT_NE(o.out.find("✗ agrees_with_reference"), std::string::npos) << o.out;
  EXPECT_GT(count(), seeds);
  // The command that it prints replays it, and so does the file.
  const std::size_t start = o.out.find("norma check "), end = o.out.find('\n', start);
  ASSERT_NE(start, std::string::npos);
  EXPECT_EQ(norma(o.out.substr(start + 6, end - start - 6)).status, 1) << o.out;
  fs::path newest;
  for (const fs::directory_entry& file : fs::directory_iterator(at("corpus"))) {
    if (newest.empty() || file.last_write_time() > fs::last_write_time(newest)) newest = file.path();
  }
  EXPECT_EQ(norma("check mutant:unbiased-variance --law agrees_with_reference --case \"$(cat " + newest.string() + ")\"").status, 1);
  // What cannot be kept is told, by a line, and the search goes on to its end.
  const std::string to = at("").string();
  const std::string full =
      "cd " + to + " && (trap '' XFSZ; ulimit -f 0; " + program() + " " + fuzz + " --seed 5 2>&1; echo status $?) | cat";
  std::string said;
  FILE* pipe = popen(full.c_str(), "r");
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) said += static_cast<char>(c);
  pclose(pipe);
  EXPECT_NE(said.find("cannot be written: File too large\n"), std::string::npos) << said;
  EXPECT_NE(said.find("VIOLATED: 60 cases"), std::string::npos) << said;
  EXPECT_TRUE(said.ends_with("status 2\n")) << said;
  // What holds no case is named.
  ASSERT_TRUE(write_file(at("corpus/.odd"), std::as_bytes(std::span(std::string_view("layer_nrom f32")))).ok());
  const Outcome odd = norma("fuzz reference --op layer_norm --cases 1 --corpus corpus");
  EXPECT_EQ(odd.status, 0) << odd.err;
  EXPECT_NE(odd.out.find("  no case in .odd: case: no op \"layer_nrom\"\n"), std::string::npos) << odd.out;
}

TEST_F(Program, FuzzRefuses) {
  expect_refusal("fuzz smid", {"there is no subject \"smid\", did you mean simd?"});
  expect_refusal("fuzz simd --law mean_zeor", {"--law", "did you mean mean_zero?"});
  expect_refusal("fuzz simd --law mean_square_one --op layer_norm", {"no law to ask"});
  expect_refusal("fuzz simd --shard 3/2", {"--shard", "I/N"});
  expect_refusal("fuzz simd --minutes -1", {"--minutes"});
  expect_refusal("fuzz simd --minutes soon", {"--minutes", "soon"});
  expect_refusal("fuzz simd --cases 0", {"--cases"});
  for (const std::string folder : {"/dev/null", "/dev/null/corpus", "/proc/corpus"}) {
    expect_refusal("fuzz simd --corpus " + folder, {"--corpus", folder, "no folder"});
  }
  expect_refusal("fuzz simd --corpus /proc", {"--corpus", "/proc/case"});
  EXPECT_EQ(norma("fuzz ./nowhere.so").status, 3);
  expect_refusal("fuzz simd --minutes 1 --cases 9", {"--minutes, --cases", "one of them"});
  // What makes a program one of libFuzzer's, and here is all of it.
  ASSERT_TRUE(
      write_file(at("target"), std::as_bytes(std::span(std::string_view("#!/bin/sh\n# LLVMFuzzerTestOneInput\necho \"$@\"\n")))).ok());
  fs::permissions(at("target"), fs::perms::owner_all);
  expect_refusal("fuzz ./target --time 3", {"--time: a libFuzzer target takes no such option"});
  expect_refusal("fuzz ./target --law mean_zero --corpus new", {"--law: a libFuzzer target takes no such option"});
  expect_refusal("fuzz smid --corpus new", {"did you mean simd?"});
  EXPECT_FALSE(fs::exists(at("new")));
  expect_refusal("fuzz simd --cases 3 --shard 5/9", {"--shard", "3 cases"});
  const Outcome o = norma("fuzz ./target --cases 7 --seed 4");
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.out.find("-runs=7 -seed=5"), std::string::npos) << o.out;
}

// Golden files of one op, and what is wrong with them is told case by case.
TEST_F(Program, GoldenFilesAreCheckedAndPut) {
  fs::create_directory(at("files"));
  const fs::path file = at("files") / "layer_norm_f32.json";
  const std::string text = contents(NORMA_SOURCE "/golden/vectors_v1/layer_norm_f32.json");
  const auto put = [&](const std::string& what) { ASSERT_TRUE(write_file(file, std::as_bytes(std::span(what))).ok()); };
  put(text);
  EXPECT_EQ(norma("golden lint --dir files").status, 0);
  const Outcome simd = norma("golden verify simd --dir files"), plain = norma("golden verify plain --dir files");
  EXPECT_EQ(simd.status, 0) << simd.out;
  EXPECT_NE(simd.out.find("100 %"), std::string::npos) << simd.out;
  EXPECT_EQ(plain.status, 0) << plain.out;
  const Outcome wrong = norma("golden verify mutant:epsilon-outside-root --dir files");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_NE(wrong.out.find("\nlayer_norm_f32_"), std::string::npos) << wrong.out;
  EXPECT_NE(wrong.out.find("\nVIOLATED: "), std::string::npos);
  // A subject that can none of it has not passed.
  const Outcome none = norma("golden verify 'exec:" NORMA_PYTHON " -c \"import sys; sys.exit(3)\"' --dir files");
  EXPECT_EQ(none.status, 3) << none.out;
  nlohmann::ordered_json j = nlohmann::ordered_json::parse(text);
  const std::string id = j["cases"][7]["id"];
  const Outcome shown = norma("golden show " + id + " --dir files");
  EXPECT_EQ(shown.status, 0);
  EXPECT_NE(shown.out.find(id), std::string::npos);
  EXPECT_NE(shown.out.find("norma check SUBJECT --law agrees_with_reference --case "), std::string::npos) << shown.out;
  expect_refusal("golden show nobody --dir files", {"files: there is no case \"nobody\""});

  // A bit of y, and of what it follows from.
  for (const char* place : {"/cases/7/outputs/y/data", "/cases/7/outputs/y/hi", "/cases/7/inputs/x/data"}) {
    nlohmann::ordered_json bad = j;
    std::string digits = bad[nlohmann::ordered_json::json_pointer(place)];
    digits[0] = digits[0] == '0' ? '1' : '0';
    bad[nlohmann::ordered_json::json_pointer(place)] = digits;
    put(bad.dump());
    const Outcome o = norma("golden lint --dir files");
    EXPECT_EQ(o.status, 1) << place;
    EXPECT_NE(o.out.find(quote(id)), std::string::npos) << o.out;
  }
  nlohmann::ordered_json twice = j;
  twice["cases"].push_back(twice["cases"][7]);
  put(twice.dump());
  EXPECT_NE(norma("golden lint --dir files").out.find(id + "\" is in layer_norm_f32.json already"), std::string::npos);
  nlohmann::ordered_json empty = j;
  empty["cases"] = nlohmann::ordered_json::array();
  for (const auto& [what, says] : {std::pair{text.substr(0, 5000), "is no JSON"},
                                   {std::string("{}"), "norma golden vectors 1"},
                                   {empty.dump(), "there are no cases"}}) {
    put(what);
    expect_refusal("golden verify simd --dir files", {"files/layer_norm_f32.json: ", says});
    const Outcome o = norma("golden lint --dir files");
    EXPECT_EQ(o.status, 1);
    EXPECT_NE(o.out.find(says), std::string::npos) << o.out;
  }
  expect_refusal("golden verify simd --dir nowhere", {"nowhere: No such file"});
  fs::create_directory(at("none"));
  expect_refusal("golden lint --dir none", {"none: there are no files: expected some of *.json, *.safetensors"});
  expect_refusal("golden write --dir /dev/null/x", {"/dev/null/x is no folder"});
  expect_refusal("golden", {"norma golden --help"});
}

// What golden/README.md says of all the files.
TEST_F(Program, GoldenFilesTellAPlainLoopFromOthers) {
  const std::string of_all = " --dir " NORMA_SOURCE "/golden/vectors_v1";
  EXPECT_EQ(norma("golden lint" + of_all).status, 0);
  EXPECT_EQ(norma("golden verify plain" + of_all).status, 0);
  for (const std::string mutant : {"accumulates-in-storage-format", "single-pass-variance"}) {
    EXPECT_EQ(norma("golden verify mutant:" + mutant + of_all).status, 1) << mutant;
  }
}

TEST_F(Program, ListsWhatThereIs) {
  for (const std::string what : {"ops", "formats", "settings", "targets"}) {
    EXPECT_EQ(norma("list " + what).status, 0) << what;
    EXPECT_FALSE(json::parse(norma("list --json " + what).out).empty()) << what;
  }
  EXPECT_EQ(json::parse(norma("list ops --json").out).size(), 7U);
}

TEST_F(Program, WithoutACommandHelps) {
  const Outcome bare = norma("");
  EXPECT_EQ(bare.status, 2);
  EXPECT_EQ(bare.err, "");
  EXPECT_EQ(bare.out, norma("--help").out);
  EXPECT_NE(bare.out.find("judge"), std::string::npos) << bare.out;
  EXPECT_EQ(norma("--help").status, 0);
}

TEST_F(Program, RefusesInOneLineThatSaysWhatWhereAndWhatWasExpected) {
  write("good.safetensors", {tensor("x", {2, 2}, {1, 2, 3, 4}), tensor("y", {2, 2}, {1, 2, 3, 4})}, {{"op", "layer_norm"}});
  write("no_op.safetensors", {tensor("x", {2, 2}, {1, 2, 3, 4}), tensor("y", {2, 2}, {1, 2, 3, 4})}, {});
  write("no_y.safetensors", {tensor("x", {2, 2}, {1, 2, 3, 4})}, {{"op", "layer_norm"}});
  write("bias.safetensors", {tensor("x", {2}, {1, 2}), tensor("y", {2}, {1, 2}), tensor("bias", {2}, {0, 0})}, {{"op", "layer_norm"}});
  write("shape.safetensors", {tensor("x", {2, 2}, {1, 2, 3, 4}), tensor("y", {4}, {1, 2, 3, 4})}, {{"op", "layer_norm"}});
  write("nan.safetensors", {tensor("x", {2}, {1, 2}), tensor("y", {2}, {1, 2})}, {{"op", "layer_norm"}, {"epsilon", "nan"}});
  std::ofstream(at("text.safetensors")) << "this is no tensor file at all";

  expect_refusal("jugde good.safetensors", {"norma has no command \"jugde\", did you mean judge? (see norma --help)"});
  expect_refusal("jugde --jsn good.safetensors", {"command \"jugde\""});
  expect_refusal("--jugde", {"norma has no option \"--jugde\" (see norma --help)"});
  expect_refusal("--versoin judge", {"norma has no option \"--versoin\", did you mean --version?"});
  expect_refusal("judge", {"FILE", "see norma judge --help"});
  expect_refusal("judge --requre", {"norma judge has no option \"--requre\", did you mean --require? (see norma judge --help)"});
  expect_refusal("judge good.safetensors --requre=faithful", {"\"--requre\", did you mean --require?"});
  expect_refusal("run good.safetensors --gain_offset 1", {"norma run has no option \"--gain_offset\", did you mean --gain-offset?"});
  expect_refusal("judge good.safetensors more", {"not expected: more", "see norma judge --help"});
  expect_refusal("judge --", {"FILE", "see norma judge --help"});
  expect_refusal("judge nowhere.safetensors", {"nowhere.safetensors"});
  expect_refusal("judge .", {"."});
  expect_refusal("judge text.safetensors", {"text.safetensors"});
  expect_refusal("judge no_op.safetensors", {"no_op.safetensors", "--op"});
  expect_refusal("judge no_op.safetensors --op layernorm", {"layernorm", "did you mean layer_norm? (see norma list ops)"});
  expect_refusal("judge no_y.safetensors", {"no_y.safetensors", "tensor y"});
  expect_refusal("judge bias.safetensors", {"bias.safetensors", "\"bias\"", "did you mean beta?"});
  expect_refusal("judge shape.safetensors", {"shape.safetensors", "y has shape [4]", "[2, 2]"});
  expect_refusal("judge nan.safetensors", {"nan.safetensors", "epsilon"});
  expect_refusal("judge good.safetensors --epsilon -1", {"epsilon", "zero or more"});
  expect_refusal("judge good.safetensors --epsilon soup", {"epsilon", "soup"});
  expect_refusal("judge good.safetensors --axis 2", {"axis 2", "-2 to 1"});
  expect_refusal("judge good.safetensors --op group_norm", {"groups"});
  expect_refusal("judge good.safetensors --op group_norm --groups 3", {"3 groups", "2 channels"});
  expect_refusal("judge good.safetensors --dtype f16", {"f32"});
  expect_refusal("judge good.safetensors --nonsense", {"nonsense"});
  expect_refusal("run good.safetensors", {"--output"});
  write("no_x.safetensors", {tensor("y", {1}, {1})}, {{"op", "layer_norm"}});
  expect_refusal("run no_x.safetensors --output out.npz", {"no_x.safetensors", "layer_norm needs the tensor x"});
  expect_refusal("run no_y.safetensors --output no_y.safetensors", {"--output", "inputs"});
  expect_refusal("judge no_y.safetensors --outputs good.safetensors", {"good.safetensors", "no output \"x\""});
  expect_refusal("judge no_y.safetensors --outputs ''", {"cannot be opened"});
  write("half.npz", {tensor("x", {2, 1}, {1, 2}), tensor("mean", {1}, {1}), tensor("y", {2, 1}, {1, 2})}, {{"op", "batch_norm"}});
  expect_refusal("judge half.npz", {"half.npz", "a mean alone"});
  expect_refusal("judge good.safetensors --variance-estimator unbiased --op rms_norm", {"rms_norm", "unbiased"});
  expect_refusal("explain 1 2 --gamma 1,,2", {"gamma", "expected 1 or 2"});
  expect_refusal("explain 1 2 --shape ''", {"--shape"});
  expect_refusal("explain --op group_norm 1 2", {"groups"});
  expect_refusal("list ops --json=false", {"json", "override"});
  expect_refusal("run no_y.safetensors --output nowhere/out.npz", {"nowhere"});
  expect_refusal("run no_y.safetensors --output out.txt", {"out.txt"});
  expect_refusal("run no_y.safetensors --output out.npz --engine warp", {"warp"});
  expect_refusal("run no_y.safetensors --output out.npz --also xhta", {"xhta", "did you mean xhat?"});
  expect_refusal("judge good.safetensors --layout NCHW", {"layout", "layer_norm"});
  expect_refusal("judge good.safetensors --require perfection", {"perfection"});
  write("eps.safetensors", {tensor("x", {1}, {1}), tensor("y", {1}, {1})}, {{"op", "layer_norm"}, {"eps", "1e-12"}});
  expect_refusal("judge eps.safetensors", {"\"eps\"", "did you mean epsilon?"});
  write("array.npz", {tensor("x", {1}, {1}), tensor("y", {1}, {1}), tensor("epsilon", {1}, {1})}, {{"op", "layer_norm"}});
  expect_refusal("judge array.npz", {"\"epsilon\"", "single value"});
  expect_refusal("explain 1 2 --mean 3", {"--mean", "layer_norm"});
  expect_refusal("explain /", {"at least one number"});
  expect_refusal("explain 1 2 --epsilon -.5", {"epsilon", "zero or more"});
  expect_refusal("explain 1 2 three", {"three"});
  expect_refusal("explain 1 2 / 3", {"row 2"});
  expect_refusal("explain 1 2 3 --shape 2,2", {"--shape 2,2", "3 numbers"});
  expect_refusal("explain 1 2 3 --gamma 1,2", {"--gamma", "expected 1 or 3"});
  expect_refusal("explain 1 2 --format f31", {"f31"});
  expect_refusal("list oops", {"did you mean ops? (expected ops, formats, settings, targets, laws, subjects, mutants, flags)"});
}

TEST_F(Program, TheFirstOfTheWorstIsTheFirstElement) {
  const float nan = std::nanf("");  // columns are the groups here, and element 1 is in the second
  write("f.npz", {tensor("x", {2, 2}, {1, 1, 3, 3}), tensor("y", {2, 2}, {-1, nan, nan, 1})}, {{"op", "batch_norm"}, {"epsilon", "0"}});
  const json j = json::parse(norma("judge f.npz --json").out);
  EXPECT_EQ(j["worst_index"], 1);
  EXPECT_EQ(j["worst_position"], json({0, 1}));
  write("g.npz", {tensor("x", {2, 2}, {1, 1, 3, 3}), tensor("y", {2, 2}, {-1, -2, 2, 1})}, {{"op", "batch_norm"}, {"epsilon", "0"}});
  EXPECT_EQ(json::parse(norma("judge g.npz --json").out)["worst_index"], 1);
}

TEST_F(Program, SurvivesWithoutStandardError) {
  for (const std::string gone : {"2>&-", "2>/dev/full"}) {
    const int status = std::system((program() + " judge nowhere " + gone).c_str());
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2) << gone;
  }
}

TEST_F(Program, SaysWhenItsOutputIsLost) {
  for (const std::string words : {"list ops", "--help", "explain 1 2"}) {
    const std::string command = program() + " " + words + " >/dev/full 2>" + at("err").string();
    const int status = std::system(command.c_str());
    EXPECT_EQ(WEXITSTATUS(status), 2) << words;
    EXPECT_NE(contents(at("err")).find("standard output"), std::string::npos) << words;
  }
}

}  // namespace
}  // namespace norma
