// Files read one tensor at a time: the same tensors as when they are read whole, and nothing that is not asked for.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "allocated.h"
#include "support.h"

namespace norma {
namespace {

namespace fs = std::filesystem;

class Visit : public ::testing::Test {
 protected:
  fs::path put(const char* name, std::string_view content) const {
    const fs::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "norma-visit-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

 private:
  fs::path folder_;
};

struct Seen {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
  std::vector<std::string> passed;  // over
};
// Takes what `as` says of the header.
template <class As>
Status visit(const fs::path& path, Seen& seen, As as) {
  return visit_tensor_file(path, {.wanted = [&](const TensorHeader& header) -> Result<std::optional<Format>> {
                                    const std::optional<Format> format = as(header);
                                    if (!format) seen.passed.push_back(header.name + " " + header.dtype);
                                    return format;
                                  },
                                  .see =
                                      [&](Tensor&& t) {
                                        const std::string name = t.name;
                                        seen.tensors.emplace(name, std::move(t));
                                        return Status{};
                                      },
                                  .metadata =
                                      [&](const std::string& key, const std::string& value) {
                                        seen.metadata.emplace(key, value);
                                        return Status{};
                                      }});
}
const auto own = [](const TensorHeader& header) { return header.format; };

const Tensor x{"x", Format::f32, {2, 3}, buffer("abcdefghijklmnopqrstuvwx")};
const Tensor y{"y", Format::f16, {3}, buffer("ABCDEF")};

TEST_F(Visit, SeesWhatIsRead) {
  TensorFile file;
  file.tensors = {y, x};
  file.metadata = {{"op", "layer_norm"}};
  const std::map<std::string, std::string> contents{{"a.safetensors", chars(*serialize_safetensors(file))},
                                                    {"a.npz", chars(*serialize_npz(file))}};
  for (const auto& [name, content] : contents) {
    Seen seen;
    const Status status = visit(put(name.c_str(), content), seen, own);
    ASSERT_TRUE(status.ok()) << status.message;
    EXPECT_EQ(seen.tensors, (std::map<std::string, Tensor>{{"x", x}, {"y", y}})) << name;
    Seen only_y;
    ASSERT_TRUE(
        visit(put(name.c_str(), content), only_y, [](const TensorHeader& h) { return h.name == "y" ? h.format : std::nullopt; }).ok());
    EXPECT_EQ(only_y.tensors, (std::map<std::string, Tensor>{{"y", y}})) << name;
  }
  Seen seen;
  ASSERT_TRUE(visit(put("a.safetensors", contents.at("a.safetensors")), seen, own).ok());
  EXPECT_EQ(seen.metadata, file.metadata);
}

TEST_F(Visit, TakesBitsAsAFormatThatNumpyLacks) {
  const auto as_bf16 = [](const TensorHeader&) { return std::optional(Format::bf16); };
  for (const char* const descr : {"<u2", "|V2", ">u2"}) {
    Seen seen;
    const Status status = visit(put("a.npz", zip({stored("y.npy", npy_array(descr, "(2,)", "\x80\x3f\x40\xc0"))})), seen, as_bf16);
    ASSERT_TRUE(status.ok()) << status.message;
    const std::string_view bits = descr[0] == '>' ? "\x3f\x80\xc0\x40" : "\x80\x3f\x40\xc0";
    EXPECT_EQ(seen.tensors.at("y"), (Tensor{"y", Format::bf16, {2}, buffer(bits)})) << descr;
  }
  Seen seen;
  const Status status = visit(put("a.npz", zip({stored("y.npy", npy_array("<u4", "(1,)", "abcd"))})), seen, as_bf16);
  EXPECT_NE(status.message.find("tensor \"y\" has dtype <u4, which is not to be had as bf16"), std::string::npos) << status.message;
}

// Before the library that holds them all has a look.
TEST_F(Visit, CountsTheMembersOfAnArchive) {
  const auto with = [&](std::uint64_t members, std::uint64_t record_at) {
    const std::string record = "PK\6\6" + little(44, 8) + little(45, 2) + little(45, 2) + little(0, 8) + little(members, 8) +
                               little(members, 8) + little(0, 8) + little(0, 8);
    const std::string locator = "PK\6\7" + little(0, 4) + little(record_at, 8) + little(1, 4);
    const std::string end = "PK\5\6" + little(0, 4) + little(0xffff, 2) + little(0xffff, 2) + little(0xffffffff, 4) + little(0xffffffff, 4);
    Seen seen;
    return visit(put("a.npz", "PK\3\4" + record + locator + end + little(9, 2) + "a comment"), seen, own).message;
  };
  EXPECT_NE(with(200'001, 4).find("a.npz: has 200001 members: expected at most 200000"), std::string::npos) << with(200'001, 4);
  EXPECT_NE(with(~std::uint64_t{0}, 4).find("has 18446744073709551615 members"), std::string::npos) << with(~std::uint64_t{0}, 4);
  for (const auto& [members, at] : {std::pair<std::uint64_t, std::uint64_t>(200'000, 4), {200'001, 5}, {200'001, 1 << 20}, {7, ~0ULL}}) {
    EXPECT_NE(with(members, at).find("is no valid zip archive"), std::string::npos) << with(members, at);
  }
}

TEST_F(Visit, SeesOutputsOfGoldenFiles) {
  // Keys in the order of the files, in that of programs that sort them, and what else there may be.
  const std::string json = R"({"format": "norma golden vectors 1", "notes": {"a": ["}", "\"", "\\", 1.5e-3, true, null, {}, []]},
    "cases": [{"id": "a_1", "inputs": {"x": {"data": "00"}}, "outputs":
      {"y": {"dtype": "f16", "shape": [1, 2], "data": "003c00Bc", "lo": "00000000", "hi": "\u0030\\"}}},
     {"a": "é", "id": "a_2", "outputs": {"mean": {"data": "0000803f", "dtype": "f32", "shape": []}, "y": {"data": "", "dtype": "f64", "shape": [0, 2]}}, "z": -1},
     {"id": "a_3"}]})";
  Seen seen;
  const Status status = visit(put("a.json", json), seen, own);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(seen.tensors,
            (std::map<std::string, Tensor>{{"a_1.out.y", {"a_1.out.y", Format::f16, {1, 2}, buffer(std::string_view("\0\x3c\0\xbc", 4))}},
                                           {"a_2.out.mean", {"a_2.out.mean", Format::f32, {}, buffer(std::string_view("\0\0\x80\x3f", 4))}},
                                           {"a_2.out.y", {"a_2.out.y", Format::f64, {0, 2}, {}}}}));
  Seen none;
  ASSERT_TRUE(visit(put("a.json", json), none, [](const TensorHeader&) { return std::optional<Format>(); }).ok());
  EXPECT_EQ(none.passed, (std::vector<std::string>{"a_1.out.y f16", "a_2.out.mean f32", "a_2.out.y f64"}));
}

// Keys and strings that are passed over may be anything, and cost no more than others.
TEST_F(Visit, PassesOverWhatItDoesNotKnow) {
  std::string odd;
  for (int i = 0; i < 1 << 20; ++i) odd += R"(\\)";
  const std::string json =
      "{\"" + odd + R"(\"": 1, "caf\u00e9": [")" + odd +
      R"("], "cases": [{"i\u0064": 2, "id": "i", "outputs": {"y": {"\n": "\t", "dtype": "f16", "shape": [1], "data": "0102"}}}]})";
  Seen seen;
  const Status status = visit(put("a.json", json), seen, own);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(seen.tensors.at("i.out.y").data, buffer("\1\2"));
}

TEST_F(Visit, GivesTheMetadataOfArchives) {
  TensorFile file;
  file.tensors = {y};
  file.metadata = {{"epsilon", "0x1p-17"}, {"op", "layer_norm"}};
  Seen seen;
  ASSERT_TRUE(visit(put("a.npz", chars(*serialize_npz(file))), seen, own).ok());
  EXPECT_EQ(seen.metadata, file.metadata);
  EXPECT_EQ(seen.tensors.size(), 1U);
}

TEST_F(Visit, PartsOfAFileMeetAnywhere) {
  // Strings, escapes and numbers across the ends of what is read at once.
  constexpr std::size_t part = 1 << 18;
  for (std::size_t before = part - 124; before < part; ++before) {
    const std::string json =
        "{\"a\": \"" + std::string(before, 'x') +
        R"(\\", "b": "\"\\\"", "cases": [{"id": "i", "c": 123456, "outputs": {"y": {"dtype": "f16", "shape": [2], "data": "0102abCD"}}}]})";
    Seen seen;
    const Status status = visit(put("a.json", json), seen, own);
    ASSERT_TRUE(status.ok()) << before << status.message;
    EXPECT_EQ(seen.tensors.at("i.out.y").data, buffer("\1\2\xab\xcd"));
  }
}

TEST_F(Visit, WhatIsWrongIsSaid) {
  const auto case_with = [](const char* tensor) { return std::string(R"({"cases": [{"id": "i", "outputs": {"y": )") + tensor + "}}]}"; };
  std::string many;
  for (int i = 0; i < 64; ++i) many += ",1";
  const std::pair<std::string, const char*> bad[] = {
      {"", "expected a golden file, an object"},
      {"[]", "byte 0: expected a golden file, an object"},
      {"{}", "there are no \"cases\""},
      {R"({"cases": []} x)", "expected the end of the file"},
      {std::string(R"({"cases": []})") + '\0' + "x", "byte 13: expected the end of the file"},
      {R"({"cases": [], "cases": []})", "the cases are there twice"},
      {R"({"cases": {}})", "expected the cases, an array"},
      {R"({"cases": [{}]})", "a case has no id"},
      {R"({"cases": [{"id": 7}]})", "expected an id, a string"},
      {R"({"cases": [{"id": "a\"b"}]})", "an id has a backslash"},
      {R"({"cases": [{"id": "a", "id": "a"}]})", "a case has two ids"},
      {R"({"cases": [{"outputs": {}, "id": "a"}]})", "a case has its outputs before its id"},
      {R"({"cases": [{"id": "a", "outputs": {}, "outputs": {}}]})", "case \"a\" has its outputs twice"},
      {R"({"cases": [{"id": "a", "outputs": {"y": {"dtype": "f16", "shape": [0], "data": ""}, "y": {}}}]})",
       "case \"a\" has two outputs \"y\""},
      {R"({"a": nul, "cases": []})", "expected a value"},
      {R"({"a": 1x, "cases": []})", "expected a value"},
      {R"({"a": "b)", "the file ends within a string"},
      {R"({"a" 1})", "expected : after a key"},
      {"{\"a\": " + std::string(65, '[') + "}", "is nested more than 64 deep"},
      {case_with("7"), "expected tensor \"i.out.y\", an object"},
      {case_with(R"({"dtype": "f16", "shape": [1]})"), "tensor \"i.out.y\" has no data"},
      {case_with(R"({"dtype": "f16", "data": "0000"})"), "tensor \"i.out.y\" has no shape"},
      {case_with(R"({"dtype": "f16", "dtype": "f16"})"), "tensor \"i.out.y\" has two fields \"dtype\""},
      {case_with(R"({"dtype": "f16", "shape": [-1], "data": ""})"), "expected an extent, a whole number"},
      {case_with(R"({"dtype": "f16", "shape": [1.5], "data": ""})"), "expected an extent, a whole number"},
      {case_with(R"({"dtype": "f16", "shape": [4294967296, 4294967296], "data": ""})"), "more than 2^58 elements"},
      {case_with(R"({"dtype": "f16", "shape": [2], "data": "0000"})"), "tensor \"i.out.y\" has 4 digits: expected 8"},
      {case_with(R"({"dtype": "f16", "shape": [1], "data": "00g0"})"), "tensor \"i.out.y\": expected pairs of hexadecimal digits"},
      {case_with(R"({"dtype": "f16", "shape": [1], "data": "000"})"), "expected pairs of hexadecimal digits"},
      {case_with((R"({"dtype": "f16", "shape": [1)" + many + R"(], "data": ""})").c_str()), "has more than 64 axes"},
  };
  for (const auto& [json, says] : bad) {
    Seen seen;
    const Status status = visit(put("a.json", json), seen, own);
    EXPECT_FALSE(status.ok()) << json;
    EXPECT_NE(status.message.find(says), std::string::npos) << json << "\n" << status.message;
  }
}

TEST_F(Visit, FilesThatAreCutAreNotWhole) {
  const std::string json =
      R"({"cases": [{"id": "i", "n": [1, {"b": "c"}], "outputs": {"y": {"dtype": "f16", "shape": [1, 2], "data": "003c003c"}}}]})";
  TensorFile file;
  file.tensors = {x, y};
  for (const auto& [name, content] : {std::pair<const char*, std::string>("a.json", json),
                                      {"a.safetensors", chars(*serialize_safetensors(file))},
                                      {"a.npz", chars(*serialize_npz(file))}}) {
    for (std::size_t size = 0; size < content.size(); ++size) {
      Seen seen;
      const Status status = visit(put(name, std::string_view(content).substr(0, size)), seen, own);
      EXPECT_FALSE(status.ok()) << name << " cut to " << size;
      EXPECT_EQ(status.message.find('\n'), std::string::npos);
    }
  }
}

// Of files that are larger than what may be in memory.
TEST_F(Visit, MemoryIsThatOfATensor) {
  constexpr std::int64_t elements = 1 << 16;
  constexpr int tensors = 64;
  TensorFile file;
  std::string json = "{\"cases\": [";
  for (int i = 0; i < tensors; ++i) {
    const std::string name = std::to_string(i);
    file.tensors.push_back({name, Format::f32, {elements}, std::vector<std::byte>(4 * elements)});
    json += (i == 0 ? "" : ",") + std::string("{\"id\": \"") + name +
            R"(", "outputs": {"y": {"dtype": "f32", "shape": [65536], "data": ")" + std::string(8 * elements, '0') + "\"}}}";
  }
  json += "]}";
  for (const auto& [name, content] : {std::pair<const char*, std::string>("a.json", json),
                                      {"a.safetensors", chars(*serialize_safetensors(file))},
                                      {"a.npz", chars(*serialize_npz(file))}}) {
    const fs::path path = put(name, content);
    int seen = 0;
    (void)most_allocated();
    const Status status =
        visit_tensor_file(path, {.wanted = [](const TensorHeader& h) -> Result<std::optional<Format>> { return h.format; },
                                 .see =
                                     [&](Tensor&& t) {
                                       seen += t.data.size() == 4 * elements;
                                       return Status{};
                                     }});
    EXPECT_TRUE(status.ok()) << status.message;
    EXPECT_EQ(seen, tensors);
    EXPECT_LT(most_allocated(), 8 * 4 * elements) << name;  // a string of digits grows by doubling
  }
}

}  // namespace
}  // namespace norma
