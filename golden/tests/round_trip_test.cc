#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "numpy_files.h"
#include "support.h"

namespace norma {
namespace {

TensorFile parsed(const Container& container, std::string_view content) {
  Result<TensorFile> file = container.parse(bytes(content));
  EXPECT_TRUE(file.ok()) << container.name << ": " << (file.ok() ? "" : file.status().message);
  return file.ok() ? *file : TensorFile{};
}

std::string serialized(const Container& container, const TensorFile& file) {
  const auto content = container.serialize(file);
  EXPECT_TRUE(content.ok()) << container.name << ": " << (content.ok() ? "" : content.status().message);
  return content.ok() ? chars(*content) : "";
}

constexpr const Container& in_safetensors = containers[0];
constexpr const Container& in_npy = containers[1];
constexpr const Container& in_npz = containers[2];

TEST(RoundTrip, EveryFormatInSafetensors) {
  TensorFile file;
  for (std::size_t i = 0; i < formats.size(); ++i) {
    const auto format = static_cast<Format>(i);
    const std::string name(formats[i].name);
    const auto width = static_cast<std::size_t>(formats[i].bytes());
    file.tensors.push_back({name, format, {3}, buffer(std::string(3 * width, static_cast<char>('a' + i)))});
    file.tensors.push_back({name + " scalar", format, {}, buffer(std::string(width, static_cast<char>('A' + i)))});
    file.tensors.push_back({name + " empty", format, {2, 0, 3}, {}});
  }
  EXPECT_EQ(parsed(in_safetensors, serialized(in_safetensors, file)), file);
}

TEST(RoundTrip, EveryNumpyFormatInNpyAndNpz) {
  TensorFile all;
  for (const Format format : {Format::f16, Format::f32, Format::f64}) {
    const auto width = static_cast<std::size_t>(info(format).bytes());
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{3, 1}, Shape{0, 3}}) {
      const std::size_t n = shape.empty() ? 1 : shape[0] == 0 ? 0 : 3;
      Tensor tensor{std::string(info(format).name) + std::to_string(all.tensors.size()), format, shape,
                    buffer(std::string(n * width, 'q'))};
      all.tensors.push_back(tensor);
      TensorFile one;
      one.tensors.push_back(std::move(tensor));
      const TensorFile again = parsed(in_npy, serialized(in_npy, one));
      one.tensors[0].name = "";
      EXPECT_EQ(again, one);
    }
  }
  all.metadata = {{"op", "layer_norm"}, {"epsilon", "1e-5"}, {"empty", ""}, {"text", "one\ntwo \xc2\xb5 \xf0\x9f\x98\x80"}};
  EXPECT_EQ(parsed(in_npz, serialized(in_npz, all)), all);
}

TEST(RoundTrip, NothingAtAll) {
  EXPECT_EQ(serialized(in_safetensors, {}), safetensors("{}      "));
  EXPECT_EQ(parsed(in_safetensors, safetensors("{}")), TensorFile{});
  EXPECT_EQ(parsed(in_npz, serialized(in_npz, {})), TensorFile{});
}

TEST(RoundTrip, SafetensorsBytesAreThese) {
  TensorFile file;
  file.metadata = {{"op", "rms_norm"}, {"a\"b", "\n"}};
  file.tensors = {{"h", Format::bf16, {1}, buffer("hh")}, {"x", Format::f32, {1, 1}, buffer("xxxx")}};
  // The header keeps the given order; in the data the wider elements come first, so that all are aligned.
  const std::string header = R"({"__metadata__":{"a\"b":"\n","op":"rms_norm"},"h":{"dtype":"BF16","shape":[1],"data_offsets":[4,6]},)"
                             R"("x":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}})";
  const std::string padding((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(serialized(in_safetensors, file), safetensors(header + padding, "xxxxhh"));
  EXPECT_EQ(parsed(in_safetensors, serialized(in_safetensors, file)), file);
}

TEST(RoundTrip, OtherDtypesAreNamedAndSkipped) {
  const TensorFile file = parsed(in_safetensors, safetensors(R"({"ids":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},)"
                                                             R"("x":{"dtype":"F32","shape":[1],"data_offsets":[17,21]},)"
                                                             R"("mask":{"shape":[1],"data_offsets":[16,17],"dtype":"BOOL"}})",
                                                             "0123456789abcdef!xxxx"));
  ASSERT_EQ(file.tensors.size(), 1U);
  EXPECT_EQ(file.tensors[0], (Tensor{"x", Format::f32, {1}, buffer("xxxx")}));
  EXPECT_EQ(file.unreadable, (std::map<std::string, std::string>{{"ids", "I64"}, {"mask", "BOOL"}}));
  ASSERT_TRUE(file.get("x").ok());
  EXPECT_EQ(*file.get("x"), file.find("x"));
  EXPECT_EQ(file.find("ids"), nullptr);
  EXPECT_EQ(file.get("ids").status().message, R"(tensor "ids" has dtype I64: expected one of f16, bf16, f32, f64, f8_e4m3, f8_e5m2)");
  EXPECT_EQ(file.get("y").status().message, R"(there is no tensor "y": the file has "x")");
  EXPECT_EQ(TensorFile{}.get("y").status().message, R"(there is no tensor "y": the file has none)");
}

TEST(Numpy, ArraysReadAsWhatTheyAre) {
  const std::string ordered = unhex("0000803f0000004000004040000080400000a0400000c0c0");
  for (const char* const hex : {numpy_files::f4_2x3, numpy_files::big_endian_fortran}) {
    const TensorFile file = parsed(in_npy, unhex(hex));
    ASSERT_EQ(file.tensors.size(), 1U);
    EXPECT_EQ(file.tensors[0], (Tensor{"", Format::f32, {2, 3}, buffer(ordered)}));
  }
  EXPECT_EQ(parsed(in_npy, unhex(numpy_files::scalar)).tensors,
            (std::vector<Tensor>{{"", Format::f64, {}, buffer(unhex("9a9999999999b93f"))}}));
  EXPECT_EQ(parsed(in_npy, unhex(numpy_files::empty_f2)).tensors, (std::vector<Tensor>{{"", Format::f16, {0, 3}, {}}}));
  const std::vector<Tensor> one_and_a_half{{"", Format::f64, {1}, buffer(unhex("000000000000f83f"))}};
  EXPECT_EQ(parsed(in_npy, unhex(numpy_files::vector_v2)).tensors, one_and_a_half);
  EXPECT_EQ(parsed(in_npy, unhex(numpy_files::vector_v3)).tensors, one_and_a_half);
}

TEST(Numpy, ThreeAxesInFortranOrder) {
  // Element (i, j, k) of shape (2, 3, 2) holds 100i + 10j + k; bytes would do, but Norma's narrowest numpy format has two.
  std::string fortran;
  std::string c;
  const auto element = [](int i, int j, int k) { return little(static_cast<unsigned>(100 * i + 10 * j + k), 2); };
  for (int k = 0; k < 2; ++k) {
    for (int j = 0; j < 3; ++j) {
      for (int i = 0; i < 2; ++i) fortran += element(i, j, k);
    }
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 2; ++k) c += element(i, j, k);
    }
  }
  const TensorFile file = parsed(in_npy, npy("{'shape':(2,3,2),'descr':\"<f2\",  'fortran_order' : True}", fortran));
  ASSERT_EQ(file.tensors.size(), 1U);
  EXPECT_EQ(file.tensors[0], (Tensor{"", Format::f16, {2, 3, 2}, buffer(c)}));
}

TEST(Numpy, OtherDtypesAreNamedAndNeverUnpickled) {
  const auto dtype = [](const char* hex) { return parsed(in_npy, unhex(hex)).unreadable[""]; };
  EXPECT_EQ(dtype(numpy_files::int64), "<i8");
  EXPECT_EQ(dtype(numpy_files::object), "|O");
  EXPECT_EQ(dtype(numpy_files::structured), "structured");
  EXPECT_EQ(dtype(numpy_files::datetime), "<M8[s]");
  EXPECT_EQ(dtype(numpy_files::void2), "|V2 (numpy has no bfloat16 and no fp8: use .safetensors)");
}

TEST(Numpy, OurBytesAreNumpys) {
  for (const char* const hex : {numpy_files::f4_2x3, numpy_files::scalar, numpy_files::empty_f2}) {
    EXPECT_EQ(serialized(in_npy, parsed(in_npy, unhex(hex))), unhex(hex));
  }
}

TEST(Numpy, WhatItHasNotIsBitsIfThatIsWanted) {
  const TensorFile file{
      {{"h", Format::bf16, {2}, buffer("abcd")}, {"e", Format::f8_e4m3, {1}, buffer("e")}, {"x", Format::f16, {1}, buffer("xy")}}, {}, {}};
  const Result<std::vector<std::byte>> bits = serialize_npz(file, Foreign::as_bits);
  ASSERT_TRUE(bits.ok()) << bits.status().message;
  const TensorFile read = parsed(in_npz, chars(*bits));
  EXPECT_EQ(read.unreadable, (std::map<std::string, std::string>{{"h", "<u2"}, {"e", "|u1"}}));
  EXPECT_EQ(read.tensors, (std::vector<Tensor>{file.tensors[2]}));
  // The data are at the end of a member.
  EXPECT_NE(chars(*bits).find("\nabcdPK"), std::string::npos);
  EXPECT_NE(chars(*bits).find("\nePK"), std::string::npos);
}

TEST(Numpy, KeywordsOfSavezAreMetadata) {
  const TensorFile file = parsed(in_npz, unhex(numpy_files::keywords_npz));
  EXPECT_EQ(file.metadata,
            (std::map<std::string, std::string>{{"op", "layer_norm"}, {"epsilon", "0x1.4f8b588e368f1p-17"}, {"axis", "-1"}}));
  EXPECT_EQ(file.tensors, (std::vector<Tensor>{{"x", Format::f32, {2, 2}, buffer(unhex("0000803f000000400000404000008040"))}}));
}

TEST(Numpy, CompressedArchives) {
  const TensorFile file = parsed(in_npz, unhex(numpy_files::compressed_npz));
  EXPECT_EQ(file.metadata, (std::map<std::string, std::string>{{"groups", "4"},
                                                               {"epsilon", "0x1.4f8b58p-17"},
                                                               {"momentum", "0x1.998p-4"},
                                                               {"note", "caf\xc3\xa9"},
                                                               {"op", "\xc2\xb5\xf0\x9f\x98\x80"},
                                                               {"empty", ""}}));
  EXPECT_EQ(file.tensors, (std::vector<Tensor>{{"x", Format::f32, {4, 8}, buffer(std::string(128, '\0'))}}));
  EXPECT_EQ(file.unreadable, (std::map<std::string, std::string>{{"ids", "<i8"}}));
}

TEST(Numpy, NumbersThatAreAttributes) {
  const auto text = [](std::string_view descr, std::string_view data) {
    return parsed(in_npz, zip({stored("axis.npy", npy_array(descr, "()", data))})).metadata["axis"];
  };
  EXPECT_EQ(text("|i1", "\xff"), "-1");
  EXPECT_EQ(text(">i2", unhex("fffe")), "-2");
  EXPECT_EQ(text("<i8", unhex("0000000000000080")), "-9223372036854775808");
  EXPECT_EQ(text("<u8", unhex("ffffffffffffffff")), "18446744073709551615");
  EXPECT_EQ(text("<f8", unhex("0100000000000000")), "0x0.0000000000001p-1022");
  EXPECT_EQ(text(">f8", unhex("8000000000000000")), "-0x0p+0");
  EXPECT_EQ(text("<f2", unhex("0100")), "0x1p-24");
  EXPECT_EQ(text("<f4", unhex("0000c07f")), "nan");
  EXPECT_EQ(text("<f4", unhex("000080ff")), "-inf");
  // Elsewhere, and with axes, numbers are tensors.
  const TensorFile file =
      parsed(in_npz, zip({stored("x.npy", npy_array("<f4", "()", "abcd")), stored("epsilon.npy", npy_array("<f4", "(1,)", "abcd")),
                          stored("groups.npy", npy_array("<i4", "(1,)", "abcd")), stored("n.npy", npy_array("<i4", "()", "abcd"))}));
  EXPECT_EQ(file.tensors.size(), 2U);
  EXPECT_EQ(file.unreadable.size(), 2U);
  EXPECT_TRUE(file.metadata.empty());
}

TEST(Refused, WhatAContainerCannotHold) {
  const auto refusal = [](const Container& container, const TensorFile& file) {
    const auto content = container.serialize(file);
    EXPECT_FALSE(content.ok());
    if (content.ok()) return std::string();
    EXPECT_EQ(content.status().code, Code::bad_tensor);
    return content.status().message;
  };
  const auto with = [](std::vector<Tensor> tensors, std::map<std::string, std::string> metadata = {}) {
    return TensorFile{std::move(tensors), std::move(metadata), {}};
  };
  const Tensor x{"x", Format::f32, {1}, buffer("abcd")};
  const Tensor half{"h", Format::bf16, {1}, buffer("ab")};
  EXPECT_EQ(refusal(in_npz, with({half})),
            R"(tensor "h" is bf16, which numpy does not have: expected f16, f32, f64, or a .safetensors file)");
  EXPECT_EQ(refusal(in_npy, with({half})),
            R"(tensor "h" is bf16, which numpy does not have: expected f16, f32, f64, or a .safetensors file)");
  EXPECT_EQ(refusal(in_npy, with({x, half})), "a .npy file holds exactly one tensor and no metadata: got 2 tensors and 0 metadata values");
  EXPECT_EQ(refusal(in_npy, with({x}, {{"op", "a"}})),
            "a .npy file holds exactly one tensor and no metadata: got 1 tensor and 1 metadata value");
  EXPECT_EQ(refusal(in_npz, with({x}, {{"x", "a"}})), R"(in a .npz file a tensor and metadata cannot both be called "x")");
  EXPECT_EQ(refusal(in_npz, with({{"axis", Format::f32, {}, buffer("abcd")}})),
            R"(a single number called "axis" is metadata in a .npz file: expected it as metadata, or with an axis)");
  EXPECT_EQ(refusal(in_npz, with({{"a\nb", Format::f32, {}, buffer("abcd")}})),
            R"(a .npz file cannot hold the name "a\u{0a}b": expected at most 65531 bytes, no control characters)");
  EXPECT_EQ(refusal(in_npz, with({}, {{"op", std::string("a\0", 2)}})), R"(metadata "op" ends with a zero character, which numpy drops)");
  EXPECT_EQ(refusal(in_safetensors, with({{"__metadata__", Format::f32, {1}, buffer("abcd")}})),
            R"(a .safetensors file cannot hold a tensor called "__metadata__")");
  for (const Container& container : containers) {
    EXPECT_EQ(refusal(container, with({x, x})), R"(there are two tensors "x")");
    EXPECT_EQ(refusal(container, with({{"x", Format::f32, {2}, buffer("abcd")}})), R"(tensor "x" of shape [2] holds 4 bytes: expected 8)");
    EXPECT_EQ(refusal(container, with({{"x", Format::f32, {-1}, {}}})),
              R"(tensor "x" has shape [-1]: expected at most 64 axes of nonnegative extents, and 2^58 elements)");
    EXPECT_EQ(refusal(container, with({{"\xff", Format::f32, {1}, buffer("abcd")}})), R"(the name of tensor "\x{ff}" is not UTF-8)");
    EXPECT_EQ(refusal(container, with({}, {{"op", "\xed\xa0\x80"}})), R"(metadata "op" is not UTF-8)");
    EXPECT_EQ(refusal(container, {{}, {}, {{"ids", "I64"}}}), R"(tensor "ids" of dtype I64 cannot be written: its data was not read)");
  }
}

TEST(Refused, MoreMembersThanAPlainZipCounts) {
  TensorFile file;
  for (int i = 0; i < 65534; ++i) file.tensors.push_back({std::to_string(i), Format::f32, {0}, {}});
  EXPECT_TRUE(parsed(in_npz, serialized(in_npz, file)) == file);
  file.metadata["op"] = "layer_norm";
  EXPECT_EQ(in_npz.serialize(file).status().message,
            "a .npz file of more than 65534 members or 3.75 GiB is not supported: use .safetensors");
}

RC_GTEST_PROP(RoundTrip, WhatIsWrittenIsRead, ()) {
  const auto text = [](const char* what) {
    // A few letters of every UTF-8 length, so that names collide and metadata meets tensors.
    const auto letter = rc::gen::element<std::string>("a", "B", "/", "\"", "\\", " ", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80");
    const auto letters = *rc::gen::container<std::vector<std::string>>(letter).as(what);
    std::string s;
    for (const std::string& l : letters) s += l;
    return s;
  };
  TensorFile file;
  const int tensors = *rc::gen::inRange(0, 5);
  for (int i = 0; i < tensors; ++i) {
    Tensor tensor;
    tensor.name = text("name") + std::to_string(i);
    tensor.format = static_cast<Format>(*rc::gen::inRange<int>(0, formats.size()));
    tensor.shape = *rc::gen::container<Shape>(rc::gen::inRange<std::int64_t>(0, 4));
    if (tensor.shape.size() > 4) tensor.shape.resize(4);
    std::size_t size = static_cast<std::size_t>(info(tensor.format).bytes());
    for (const std::int64_t extent : tensor.shape) size *= static_cast<std::size_t>(extent);
    tensor.data = buffer(*rc::gen::container<std::string>(size, rc::gen::arbitrary<char>()));
    file.tensors.push_back(std::move(tensor));
  }
  const int entries = *rc::gen::inRange(0, 3);
  for (int i = 0; i < entries; ++i) file.metadata[text("key")] = text("value");

  for (const Container& container : containers) {
    const auto content = container.serialize(file);
    if (!content.ok()) {
      RC_ASSERT(container.parse != parse_safetensors);  // which holds everything
      continue;
    }
    RC_TAG(std::string(container.name));
    const Result<TensorFile> again = container.parse(*content);
    RC_ASSERT(again.ok());
    TensorFile expected = file;
    if (container.parse == parse_npy) expected.tensors[0].name = "";
    RC_ASSERT(*again == expected);
    RC_ASSERT(*container.serialize(*again) == *content);
  }
}

}  // namespace
}  // namespace norma
