// Files that are damaged or out to do damage: no crash, no memory to speak of, always a status of one printable line.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

#include "allocated.h"
#include "numpy_files.h"
#include "support.h"

namespace norma {
namespace {

struct Sample {
  const Container& container;
  std::string content;
};

// Small files of every kind, each with all that its format offers.
std::vector<Sample> samples() {
  TensorFile file;
  file.tensors = {{"x", Format::f32, {2, 3}, buffer("abcdefghijklmnopqrstuvwx")}, {"\xc3\xa9", Format::f16, {3}, buffer("ABCDEF")}};
  file.metadata = {{"op", "layer_norm"}, {"epsilon", "0x1p-17"}};
  std::vector<Sample> all;
  all.push_back({containers[2], chars(*serialize_npz(file))});
  all.push_back({containers[2], unhex(numpy_files::compressed_npz)});
  for (const char* const hex : {numpy_files::big_endian_fortran, numpy_files::vector_v2, numpy_files::int64, numpy_files::structured}) {
    all.push_back({containers[1], unhex(hex)});
  }
  file.tensors.push_back({"beta", Format::bf16, {1, 3}, buffer("GHIJKL")});
  file.tensors.push_back({"scalar", Format::f8_e4m3, {}, buffer("M")});
  all.push_back({containers[0], chars(*serialize_safetensors(file))});
  return all;
}

void expect_one_line(const Status& status) {
  EXPECT_EQ(status.code, Code::bad_file);
  EXPECT_FALSE(status.message.empty());
  EXPECT_TRUE(std::all_of(status.message.begin(), status.message.end(), [](char c) { return c >= 0x20 && c < 0x7f; })) << status.message;
}

TEST(Hostile, CutAtEveryByte) {
  for (const Sample& sample : samples()) {
    ASSERT_TRUE(sample.container.parse(bytes(sample.content)).ok());
    for (std::size_t size = 0; size < sample.content.size(); ++size) {
      // Of a copy, so that a sanitizer sees the first byte beyond.
      const std::vector<std::byte> cut = buffer(std::string_view(sample.content).substr(0, size));
      const Result<TensorFile> file = sample.container.parse(cut);
      // Nothing but the header of a structure says how long its data has to be, and that is never evaluated.
      const bool structure = file.ok() && file->unreadable.contains("") && file->unreadable.at("") == "structured";
      EXPECT_TRUE(!file.ok() || structure) << sample.container.name << " cut to " << size << " bytes";
      if (!file.ok()) expect_one_line(file.status());
    }
  }
}

TEST(Hostile, EveryByteChanged) {
  for (const Sample& sample : samples()) {
    std::string content = sample.content;
    for (char& byte : content) {
      const char original = byte;
      for (int change = 1; change < 256; change = change < 128 ? 2 * change : change + 127) {  // every bit, and all of them
        byte = static_cast<char>(original ^ change);
        if (const Result<TensorFile> file = sample.container.parse(bytes(content)); !file.ok()) expect_one_line(file.status());
      }
      byte = original;
    }
  }
}

TEST(Hostile, EveryByteDoubledOrMissing) {
  for (const Sample& sample : samples()) {
    for (std::size_t i = 0; i < sample.content.size(); ++i) {
      std::string more = sample.content;
      more.insert(i, 1, more[i]);
      std::string less = sample.content;
      less.erase(i, 1);
      for (const std::string& content : {more, less}) {
        if (const Result<TensorFile> file = sample.container.parse(bytes(content)); !file.ok()) expect_one_line(file.status());
      }
    }
  }
}

TEST(Hostile, PromisesCostNoMemory) {
  const std::string zeros(1 << 20, '\0');
  ZipMember short_of_its_promise = deflated("x.npy", npy_array("<f4", "(268435456,)", zeros));
  short_of_its_promise.size = short_of_its_promise.content.size() * 1000;  // just plausible
  short_of_its_promise.content.resize(short_of_its_promise.content.size() / 2);

  const std::vector<std::pair<Container, std::string>> cases{
      {containers[0], little(1ULL << 60, 8) + "{}"},
      {containers[0], little(~0ULL, 8)},
      {containers[0], safetensors(R"({"x":{"dtype":"F32","shape":[72057594037927936],"data_offsets":[0,288230376151711744]}})")},
      {containers[0], safetensors(R"({"x":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})")},
      {containers[0], safetensors("{\"x\":" + std::string(100000, '['))},
      {containers[0], safetensors("{\"__metadata__\":" + std::string(100000, '{'))},
      {containers[0], safetensors(std::string(100000, '{'))},
      {containers[1], "\x93NUMPY\2" + little(0, 1) + "\xff\xff\xff\x7f{"},
      {containers[1], npy_array("<f8", "(1152921504606846976,)", "")},
      {containers[1], npy_array("<f8", "(36028797018963968,)", "")},
      {containers[1], npy_array("|V4294967295", "(268435456,)", "")},
      {containers[1], npy("{'descr': " + std::string(60000, '['))},
      {containers[2], zip({short_of_its_promise})},
  };
  for (const auto& [container, content] : cases) {
    const std::size_t before = allocated();
    const Result<TensorFile> file = container.parse(bytes(content));
    const std::size_t used = allocated() - before;
    EXPECT_FALSE(file.ok());
    // A copy of the header and its words; the compressed one is read in pieces of a megabyte until it ends.
    EXPECT_LT(used, (container.parse == parse_npz ? std::size_t{3} << 20 : 3 * content.size() + 4096))
        << container.name << ": " << file.status().message;
  }
}

TEST(Hostile, ADirectoryOfMillionsThatIsNotThere) {
  // The zip64 end of directory says 2^32 members. Libzip allocates by itself, so look at the memory of the process.
  const std::string end64 = "PK\6\6" + little(44, 8) + little(45, 2) + little(45, 2) + little(0, 8) + little(1ULL << 32, 8) +
                            little(1ULL << 32, 8) + little(0, 8) + little(0, 8);
  const std::string content = "PK\3\4" + end64 + "PK\6\7" + little(0, 4) + little(4, 8) + little(1, 4) + "PK\5\6" + little(0, 4) +
                              little(0xffff, 2) + little(0xffff, 2) + little(0xffffffff, 4) + little(0xffffffff, 4) + little(0, 2);
  const auto most_kilobytes = [] {
    struct rusage usage {};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const long before = most_kilobytes();
  const Result<TensorFile> file = parse_npz(bytes(content));
  EXPECT_LT(most_kilobytes() - before, 16384);
  ASSERT_FALSE(file.ok());
  expect_one_line(file.status());
}

}  // namespace
}  // namespace norma
