// Files that break one rule each, and what is said about them.
#include <gtest/gtest.h>

#include "support.h"

namespace norma {
namespace {

struct Case {
  const char* reason;
  std::string content;
  std::string message;
};

void check(Result<TensorFile> (*parse)(std::span<const std::byte>), const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const Result<TensorFile> file = parse(bytes(c.content));
    if (file.ok()) {
      ADD_FAILURE() << c.reason << ": was read";
      continue;
    }
    EXPECT_EQ(file.status().code, Code::bad_file) << c.reason;
    EXPECT_EQ(file.status().message, c.message) << c.reason;
  }
}

std::string tensor(std::string_view fields) { return R"({"x":{)" + std::string(fields) + "}}"; }
const std::string good = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";

TEST(Malformed, SafetensorsFrame) {
  check(
      parse_safetensors,
      {
          {"nothing", "", "has 0 bytes: expected a .safetensors file, which has at least 10, a .npz or a .npy file"},
          {"half a length", little(2, 7), "has 7 bytes: expected a .safetensors file, which has at least 10, a .npz or a .npy file"},
          {"a text file", "hello, world\n",
           "says that its header has 8583909746840200552 bytes, but only 5 follow: no .safetensors, .npz or .npy file, or one cut short"},
          {"2^60", little(1ULL << 60, 8) + "{}",
           "says that its header has 1152921504606846976 bytes, but only 2 follow: no .safetensors, .npz or .npy file, or one cut short"},
          {"2^64 - 1", little(~0ULL, 8) + "{}",
           "says that its header has 18446744073709551615 bytes, but only 2 follow: no .safetensors, .npz or .npy file, or one cut short"},
          {"no header", safetensors(""), "the header does not begin with {: expected a JSON object"},
          {"an array", safetensors("[]"), "the header does not begin with {: expected a JSON object"},
          {"a space first", safetensors(" {}"), "the header does not begin with {: expected a JSON object"},
          {"a byte order mark", safetensors("\xef\xbb\xbf{}"), "the header does not begin with {: expected a JSON object"},
          {"zero padding, which the JSON library takes for the end", safetensors(std::string("{}\0{", 4)),
           "the header has a zero byte at byte 2: expected JSON, padded with spaces"},
          {"not closed", safetensors("{"), "the header is no valid JSON: byte 2 of it cannot be understood"},
          {"more after the end", safetensors("{}{}"), "the header is no valid JSON: byte 3 of it cannot be understood"},
          {"a trailing comma", safetensors(tensor(good + ",")), "the header is no valid JSON: byte 54 of it cannot be understood"},
          {"a comment", safetensors("{/**/}"), "the header is no valid JSON: byte 2 of it cannot be understood"},
          {"no UTF-8", safetensors("{\"\xff\":1}"), "the header is no valid JSON: byte 3 of it cannot be understood"},
          {"half a surrogate", safetensors(R"({"\ud800":1})"), "the header is no valid JSON: byte 9 of it cannot be understood"},
          {"a number too large", safetensors(R"({"x":1e999})"), "the header is no valid JSON: byte 10 of it cannot be understood"},
      });
}

TEST(Malformed, SafetensorsFields) {
  const auto with = [](std::string_view fields) { return safetensors(tensor(fields), "abcd"); };
  check(parse_safetensors,
        {
            {"a tensor that is a number", safetensors(R"({"x":1})"),
             R"(the header's "x" is a number: expected an object with dtype, shape and data_offsets)"},
            {"a tensor that is true", safetensors(R"({"x":true})"),
             R"(the header's "x" is a boolean: expected an object with dtype, shape and data_offsets)"},
            {"a tensor that is null", safetensors(R"({"x":null})"),
             R"(the header's "x" is null: expected an object with dtype, shape and data_offsets)"},
            {"a tensor that is an array", safetensors(R"({"x":[]})"),
             R"(the header's "x" is an array: expected an object with dtype, shape and data_offsets)"},
            {"two of a name", safetensors(R"({"x":{)" + good + R"(},"x":{)" + good + "}}", "abcd"), R"(the header names "x" twice)"},
            {"two of a name, spelt differently", safetensors(R"({"x":{)" + good + R"(},"\u0078":{)" + good + "}}", "abcd"),
             R"(the header names "x" twice)"},
            {"two fields", with(good + R"(,"shape":[1])"), R"(tensor "x" has two fields "shape")"},
            {"another field", with(good + R"(,"color":1)"),
             R"(tensor "x" has a field "color": expected dtype, shape and data_offsets alone)"},
            {"no field", with(""), R"(tensor "x" has no dtype)"},
            {"no shape", with(R"("dtype":"F32","data_offsets":[0,4])"), R"(tensor "x" has no shape)"},
            {"no offsets", with(R"("dtype":"F32","shape":[1])"), R"(tensor "x" has no data_offsets)"},
            {"a dtype that is a number", with(R"("dtype":32)"), R"(tensor "x"'s dtype is a number: expected a string)"},
            {"a dtype nobody knows", with(R"("dtype":"F31","shape":[1],"data_offsets":[0,4])"),
             R"(tensor "x" has dtype "F31": expected one of F16, BF16, F32, F64, F8_E4M3, F8_E5M2, BOOL, U8, I8, F8_E8M0, F8_E4M3FNUZ, )"
             "F8_E5M2FNUZ, I16, U16, I32, U32, C64, I64, U64"},
            {"half a byte", with(R"("dtype":"F4","shape":[8],"data_offsets":[0,4])"),
             R"(tensor "x" has dtype "F4": expected one of F16, BF16, F32, F64, F8_E4M3, F8_E5M2, BOOL, U8, I8, F8_E8M0, F8_E4M3FNUZ, )"
             "F8_E5M2FNUZ, I16, U16, I32, U32, C64, I64, U64"},
            {"a shape that is a number", with(R"("dtype":"F32","shape":1)"),
             R"(tensor "x"'s shape is a number: expected an array of nonnegative integers)"},
            {"an axis that is text", with(R"("dtype":"F32","shape":["1"])"),
             R"(tensor "x"'s shape holds a string: expected nonnegative integers)"},
            {"an axis within an axis", with(R"("dtype":"F32","shape":[[1]])"),
             R"(tensor "x"'s shape holds an array: expected nonnegative integers)"},
            {"a negative axis", with(R"("dtype":"F32","shape":[-1])"),
             R"(tensor "x"'s shape holds a negative number: expected nonnegative integers)"},
            {"half an axis", with(R"("dtype":"F32","shape":[1.0])"),
             R"(tensor "x"'s shape holds a number with a fraction, an exponent or more than 64 bits: expected nonnegative integers)"},
            {"2^64", with(R"("dtype":"F32","shape":[18446744073709551616])"),
             R"(tensor "x"'s shape holds a number with a fraction, an exponent or more than 64 bits: expected nonnegative integers)"},
            {"2^63", with(R"("dtype":"F32","shape":[9223372036854775808])"),
             R"(tensor "x" has an extent of 9223372036854775808: expected less than 2^63)"},
            {"a product that overflows to 1", with(R"("dtype":"F32","shape":[4294967296,4294967296,1],"data_offsets":[0,4])"),
             R"(tensor "x" has shape [4294967296, 4294967296, 1]: more than 2^58 elements)"},
            {"an empty product that overflows on the way", with(R"("dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0])"),
             R"(tensor "x" has shape [4294967296, 4294967296, 0]: more than 2^58 elements)"},
            {"65 axes",
             with(R"("dtype":"F32","shape":[1)" +
                  std::string(128, ',').replace(0, 128,
                                                [] {
                                                  std::string ones;
                                                  for (int i = 0; i < 64; ++i) ones += ",1";
                                                  return ones;
                                                }()) +
                  R"(],"data_offsets":[0,4])"),
             R"(tensor "x" has more than 64 axes)"},
            {"one offset", with(R"("dtype":"F32","shape":[1],"data_offsets":[4])"),
             R"(tensor "x"'s data_offsets hold 1 number: expected two nonnegative integers, begin and end)"},
            {"three offsets", with(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,4])"),
             R"(tensor "x"'s data_offsets hold a number: expected two nonnegative integers, begin and end)"},
            {"a negative offset", with(R"("dtype":"F32","shape":[1],"data_offsets":[-4,0])"),
             R"(tensor "x"'s data_offsets hold a negative number: expected two nonnegative integers, begin and end)"},
            {"metadata that is text", safetensors(R"({"__metadata__":"a"})"), "__metadata__ is a string: expected an object of strings"},
            {"metadata that is a number", safetensors(R"({"__metadata__":{"axis":-1}})"),
             R"(__metadata__'s "axis" is a negative number: expected a string)"},
            {"metadata that nests", safetensors(R"({"__metadata__":{"a":{}}})"), R"(__metadata__'s "a" is an object: expected a string)"},
            {"a key of metadata twice", safetensors(R"({"__metadata__":{"a":"1","a":"2"}})"), R"(__metadata__ names "a" twice)"},
            {"metadata twice", safetensors(R"({"__metadata__":{},"__metadata__":{}})"), R"(the header names "__metadata__" twice)"},
        });
}

TEST(Malformed, SafetensorsLayout) {
  const auto two = [](const char* x, const char* y, std::string_view data) {
    const auto field = [](const char* offsets) { return R"({"dtype":"F32","shape":[1],"data_offsets":[)" + std::string(offsets) + "]}"; };
    return safetensors(R"({"x":)" + field(x) + R"(,"y":)" + field(y) + "}", data);
  };
  check(parse_safetensors,
        {
            {"beyond the end", two("0,4", "4,8", "abcd"), R"(tensor "y" ends at byte 8, but the data has 4 bytes)"},
            {"far beyond the end", two("0,4", "18446744073709551611,18446744073709551615", "abcd"),
             R"(tensor "y" ends at byte 18446744073709551615, but the data has 4 bytes)"},
            {"backwards", two("4,0", "4,8", "abcdefgh"), R"(tensor "x" begins at byte 4 and ends before, at byte 0)"},
            {"too few bytes", two("0,3", "4,8", "abcdefgh"),
             R"(tensor "x" of shape [1] and dtype F32 takes 4 bytes, but its data_offsets give it 3)"},
            {"the same bytes", two("0,4", "0,4", "abcd"), R"(tensor "x" and tensor "y" overlap at byte 0 of the data)"},
            {"some of the same bytes", two("3,7", "0,4", "abcdefg"), R"(tensor "y" and tensor "x" overlap at byte 3 of the data)"},
            {"a hole at the beginning", two("1,5", "5,9", "abcdefghi"), "bytes 0 to 1 of the data belong to no tensor"},
            {"a hole", two("0,4", "6,10", "abcdefghij"), "bytes 4 to 6 of the data belong to no tensor"},
            {"more than the tensors", two("0,4", "4,8", "abcdefghij"), "bytes 8 to 10 of the data belong to no tensor"},
            {"data and no tensor", safetensors("{}", "a"), "bytes 0 to 1 of the data belong to no tensor"},
        });
}

TEST(Malformed, Npy) {
  const auto dict = [](std::string_view text, std::string_view data = "abcd") { return npy(text, data); };
  const std::string at = " of it: expected ";
  const std::string unreadable = "the .npy header cannot be understood at byte ";
  check(parse_npy,
        {
            {"nothing", "", "has 0 bytes: expected a .npy header"},
            {"another file", "\x89PNG\r\n\x1a\n", "does not begin with \\x93NUMPY: expected a numpy array"},
            {"version 0", "\x93NUMPY" + little(0, 4), "is of .npy version 0.0: expected 1.0, 2.0 or 3.0"},
            {"version 4", "\x93NUMPY\4" + little(0, 4), "is of .npy version 4.0: expected 1.0, 2.0 or 3.0"},
            {"version 1.1", "\x93NUMPY\1\1" + little(0, 4), "is of .npy version 1.1: expected 1.0, 2.0 or 3.0"},
            {"no length", "\x93NUMPY\2" + little(0, 1), "the .npy header: ends 4 bytes too early"},
            {"a header of 4 GiB", "\x93NUMPY\2" + little(0, 1) + "\xff\xff\xff\xff{}",
             "says that its .npy header has 4294967295 bytes, but only 2 follow"},
            {"no dict", dict("[]"), unreadable + "0" + at + "{"},
            {"nothing in it", dict("{}"), "the .npy header has no descr"},
            {"no order", dict("{'descr': '<f4', 'shape': (1,)}"), "the .npy header has no fortran_order"},
            {"no shape", dict("{'descr': '<f4', 'fortran_order': False}"), "the .npy header has no shape"},
            {"another key", dict("{'color': 1}"), R"(the .npy header has a key "color": expected descr, fortran_order and shape alone)"},
            {"a key twice", dict("{'descr': '<f4', 'descr': '<f4'}"), R"(the .npy header has the key "descr" twice)"},
            {"a key that is no string", dict("{1: 2}"), unreadable + "1" + at + "'descr', 'fortran_order' or 'shape'"},
            {"an escape", dict(R"({'\x64escr': '<f4'})"), unreadable + "2" + at + "'descr', 'fortran_order' or 'shape'"},
            {"a string that does not end", dict("{'descr"), unreadable + "2" + at + "'descr', 'fortran_order' or 'shape'"},
            {"no colon", dict("{'descr' '<f4'}"), unreadable + "9" + at + ": after a key"},
            {"no comma", dict("{'descr': '<f4' 'shape': ()}"), unreadable + "16" + at + ", or }"},
            {"not closed", dict("{'descr': '<f4',"), unreadable + "16" + at + "'descr', 'fortran_order' or 'shape'"},
            {"more after the end", dict("{'descr': '<f4', 'fortran_order': False, 'shape': ()} + {}"),
             unreadable + "53" + at + "nothing but spaces after }"},
            {"an order that is a number", dict("{'fortran_order': 0}"), unreadable + "18" + at + "True or False"},
            {"a shape that is a list", dict("{'shape': [1]}"), unreadable + "10" + at + "a tuple of nonnegative integers"},
            {"a shape that is a number in brackets", dict("{'shape': (1)}"), unreadable + "12" + at + "a tuple of nonnegative integers"},
            {"no comma in the shape", dict("{'shape': (1 1)}"), unreadable + "13" + at + "a tuple of nonnegative integers"},
            {"a comma alone", dict("{'shape': (,)}"), unreadable + "11" + at + "a tuple of nonnegative integers"},
            {"a negative axis", dict("{'shape': (-1,)}"), unreadable + "11" + at + "a tuple of nonnegative integers"},
            {"2^63", dict("{'shape': (9223372036854775808,)}"), unreadable + "11" + at + "a tuple of nonnegative integers"},
            {"a product that overflows to 1", npy_array("<f4", "(4294967296, 4294967296, 1)", "abcd"),
             "has shape [4294967296, 4294967296, 1]: expected at most 64 axes and 2^58 elements"},
            {"a dtype of the machine's own byte order", npy_array("=f4", "(1,)", "abcd"),
             R"(has the dtype "=f4": expected one of numpy's, such as "<f4")"},
            {"a dtype without a size", npy_array("<f", "(1,)", "abcd"), R"(has the dtype "<f": expected one of numpy's, such as "<f4")"},
            {"a dtype with a negative size", npy_array("<f-4", "(1,)", "abcd"),
             R"(has the dtype "<f-4": expected one of numpy's, such as "<f4")"},
            {"a dtype that calls for help", npy_array("<f4\x1b[31m", "(1,)", "abcd"),
             R"(has the dtype "<f4\u{1b}[31m": expected one of numpy's, such as "<f4")"},
            {"a dtype that is a number", dict("{'descr': 4}"), unreadable + "10" + at + "a dtype"},
            {"a structure that does not end", dict("{'descr': [('a', '<f4'"), unreadable + "22" + at + "a dtype"},
            {"too little data", npy_array("<f4", "(2,)", "abcd"), "has 4 bytes of data: expected 2 elements of 4 bytes, shape [2] of <f4"},
            {"too much data", npy_array("<f4", "(1,)", "abcdefgh"), "has 8 bytes of data: expected 1 element of 4 bytes, shape [1] of <f4"},
            {"too little data of another dtype", npy_array("<i8", "(1,)", "abcd"),
             "has 4 bytes of data: expected 1 element of 8 bytes, shape [1] of <i8"},
            {"sizes that overflow to 0", npy_array("|V4294967295", "(288230376151711744,)", ""),
             "has 0 bytes of data: expected 288230376151711744 elements of 4294967295 bytes, shape [288230376151711744] of |V4294967295"},
        });
}

TEST(Malformed, Npz) {
  const std::string x = npy_array("<f4", "(1,)", "abcd");
  const ZipMember member = stored("x.npy", x);
  const auto with = [&](auto change) {
    ZipMember changed = member;
    change(changed);
    return zip({changed});
  };
  const std::string zeros = npy_array("<f4", "(1024,)", std::string(4096, '\0'));
  const auto deflated_with = [&](auto change) {
    ZipMember changed = deflated("x.npy", zeros);
    change(changed);
    return zip({changed});
  };
  // Three entries of the directory, one member: the archive is smaller than its members together.
  const std::string one = zip({stored("x.npy", zeros)});
  const std::string three = zip({stored("x.npy", zeros), stored("y.npy", zeros), stored("z.npy", zeros)});
  std::string overlapping = three.substr(0, one.find("PK\1\2")) + three.substr(three.find("PK\1\2"));
  for (const char* const name : {"y.npy", "z.npy"}) overlapping.replace(overlapping.rfind(name) - 4, 4, little(0, 4));
  overlapping.replace(overlapping.size() - 6, 4, little(one.find("PK\1\2"), 4));

  check(parse_npz, {
                       {"nothing", "", "does not begin with PK: expected a zip archive"},
                       {"no directory", "PK\3\4" + std::string(60, 'a'), "is no valid zip archive: Not a zip archive"},
                       {"two of a name", zip({member, member}), R"(two members are called "x")"},
                       {"two of a name, with and without .npy", zip({member, stored("x", x)}), R"(two members are called "x")"},
                       {"encrypted", with([](ZipMember& m) { m.flags = 1; }), R"(member "x.npy": is encrypted)"},
                       {"another compression", with([](ZipMember& m) { m.method = 12; }),
                        R"(member "x.npy": is compressed by method 12: expected 0 (stored) or 8 (deflated))"},
                       {"a wrong checksum", with([](ZipMember& m) { m.crc ^= 1; }), R"(member "x.npy": cannot be read: CRC error)"},
                       {"stored bytes that grow", with([](ZipMember& m) { m.size = 99999; }),
                        R"(member "x.npy": states 99999 bytes in 72 stored ones)"},
                       {"a bomb", deflated_with([](ZipMember& m) { m.size = 4000000000; }),
                        R"(member "x.npy": states 4000000000 bytes in 95 deflated ones, which cannot be)"},
                       {"a header cut off by the stated size", deflated_with([](ZipMember& m) { m.size = 20; }),
                        R"(member "x.npy": says that its .npy header has 61 bytes, but only 10 follow)"},
                       {"fewer bytes than stated", deflated_with([](ZipMember& m) { m.size += 4; }),
                        R"(member "x.npy": has 4100 bytes of data: expected 1024 elements of 4 bytes, shape [1024] of <f4)"},
                       {"no deflate stream", deflated_with([](ZipMember& m) { m.content.assign(m.content.size(), '\xff'); }),
                        R"(member "x.npy": cannot be read: Zlib error: data error)"},
                       {"half a deflate stream", deflated_with([](ZipMember& m) { m.content.resize(m.content.size() / 2); }),
                        R"(member "x.npy": cannot be read: CRC error)"},
                       {"members that share bytes", overlapping,
                        R"(member "y.npy" brings the members to more bytes than the file has: they overlap, or their sizes are wrong)"},
                       {"a directory", zip({stored("d/", "")}), R"(member "d/": has 0 bytes: expected a .npy header)"},
                       {"a text", zip({stored("readme.txt", "hello, world")}),
                        R"(member "readme.txt": does not begin with \x93NUMPY: expected a numpy array)"},
                       {"a bad member", zip({stored("a\"b.npy", npy_array("<f4", "(2,)", "abcd"))}),
                        R"(member "a\"b.npy": has 4 bytes of data: expected 2 elements of 4 bytes, shape [2] of <f4)"},
                       {"a name of two lines", zip({stored("a\nb.npy", x)}),
                        R"(member "a\u{0a}b.npy" has a bad name: expected UTF-8 without control characters)"},
                       {"a name that is no UTF-8 to anyone but libzip", zip({stored("\xed\xa0\x80.npy", x)}),
                        R"(member "\x{ed}\x{a0}\x{80}.npy" has a bad name: expected UTF-8 without control characters)"},
                       {"text with a surrogate", zip({stored("op.npy", npy_array("<U1", "()", little(0xd800, 4)))}),
                        R"(member "op.npy": holds text with a code point that is no character)"},
                       {"text beyond Unicode", zip({stored("op.npy", npy_array(">U1", "()", little(0x1100, 4)))}),
                        R"(member "op.npy": holds text with a code point that is no character)"},
                       {"bytes that are no UTF-8", zip({stored("op.npy", npy_array("|S1", "()", "\xff"))}),
                        R"(member "op.npy": holds text that is not UTF-8)"},
                   });
}

TEST(Malformed, NamesInMessagesAreShortAndPrintable) {
  const auto message = [](const std::string& name) {
    return parse_safetensors(bytes(safetensors("{\"" + name + "\":1}"))).status().message;
  };
  EXPECT_EQ(message(R"(\u001b[2J\n\u009b\"\\)"),
            R"(the header's "\u{1b}[2J\u{0a}\u{9b}\"\\" is a number: expected an object with dtype, shape and data_offsets)");
  EXPECT_EQ(message("\xc3\xa9\xe2\x80\xae\xf0\x9f\x98\x80"),
            R"(the header's "\u{e9}\u{202e}\u{01f600}" is a number: expected an object with dtype, shape and data_offsets)");
  EXPECT_EQ(message(std::string(5000, 'n')), R"(the header's ")" + std::string(80, 'n') +
                                                 R"(..." (5000 bytes) is a number: expected an object with dtype, shape and data_offsets)");
}

}  // namespace
}  // namespace norma
