// What happens between the library and the operating system.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "../src/file.h"
#include "support.h"

namespace norma {
namespace {

namespace fs = std::filesystem;

// A directory of its own for every test.
class Paths : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "norma-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override {
    fs::permissions(directory_, fs::perms::owner_all);
    fs::remove_all(directory_);
  }

  [[nodiscard]] fs::path at(std::string_view name) const { return directory_ / name; }
  fs::path put(std::string_view name, std::string_view content) const {
    std::ofstream(at(name), std::ios::binary) << content;
    return at(name);
  }
  static std::string content(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(directory_)) all.push_back(entry.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
  }
  // The message without the directory before it.
  [[nodiscard]] std::string message(const Status& status) const {
    const std::string prefix = directory_.string() + "/";
    EXPECT_TRUE(status.message.starts_with(prefix)) << status.message;
    return status.message.substr(std::min(prefix.size(), status.message.size()));
  }
  [[nodiscard]] std::string read_message(const fs::path& path, Code code) const {
    const Result<TensorFile> file = read_tensor_file(path);
    EXPECT_FALSE(file.ok());
    if (file.ok()) return "";
    EXPECT_EQ(file.status().code, code);
    return message(file.status());
  }

  fs::path directory_;
};

TensorFile one(std::string_view data = "abcd") {
  TensorFile file;
  file.tensors.push_back({"x", Format::f32, {static_cast<std::int64_t>(data.size() / 4)}, buffer(data)});
  return file;
}

TEST_F(Paths, WrittenAndReadInEveryFormat) {
  for (const char* const name : {"x.safetensors", "x.npz", "x.npy"}) {
    const Status status = write_tensor_file(at(name), one());
    EXPECT_TRUE(status.ok()) << status.message;
    const Result<TensorFile> file = read_tensor_file(at(name));
    ASSERT_TRUE(file.ok()) << file.status().message;
    EXPECT_EQ(*file, one());
  }
  EXPECT_EQ(names(), (std::vector<std::string>{"x.npy", "x.npz", "x.safetensors"}));
}

TEST_F(Paths, ContentDecidesAndNotTheExtension) {
  for (const Container& container : containers) {
    const Result<TensorFile> file = read_tensor_file(put("x.data", chars(*container.serialize(one()))));
    ASSERT_TRUE(file.ok()) << file.status().message;
    EXPECT_EQ(*file, one());
  }
  const Result<TensorFile> ids = read_tensor_file(put("ids.npy", npy_array("<i4", "(1,)", "abcd")));
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(ids->get("ids").status().message, R"(tensor "ids" has dtype <i4: expected one of f16, bf16, f32, f64, f8_e4m3, f8_e5m2)");
}

TEST_F(Paths, LargeTensorsComeInPieces) {
  std::string data;
  for (unsigned i = 0; i < 1'000'000; ++i) data += little(i, 4);
  for (const char* const name : {"x.safetensors", "x.npz", "x.npy"}) {
    ASSERT_TRUE(write_tensor_file(at(name), one(data)).ok());
    const Result<TensorFile> file = read_tensor_file(at(name));
    ASSERT_TRUE(file.ok()) << file.status().message;
    EXPECT_TRUE(*file == one(data));
  }
  const Result<TensorFile> file = parse_npz(bytes(zip({deflated("x.npy", npy_array("<f4", "(1000000,)", data))})));
  ASSERT_TRUE(file.ok()) << file.status().message;
  EXPECT_TRUE(*file == one(data));
}

TEST_F(Paths, MessagesBeginWithThePath) {
  EXPECT_EQ(
      read_message(put("x.safetensors", safetensors(R"({"y":{"dtype":"F32","shape":[24],"data_offsets":[0,96]}})", std::string(64, 'a'))),
                   Code::bad_file),
      R"(x.safetensors: tensor "y" ends at byte 96, but the data has 64 bytes)");
  EXPECT_EQ(read_message(put("a\nb\x1b\xc3\xa9.npz", "PK\3\4"), Code::bad_file),
            "a\\u{0a}b\\u{1b}\xc3\xa9.npz: is no valid zip archive: Not a zip archive");
  EXPECT_EQ(read_message(put("empty.npz", ""), Code::bad_file),
            "empty.npz: has 0 bytes: expected a .safetensors file, which has at least 10, a .npz or a .npy file");
}

TEST_F(Paths, OnlyRegularFilesAreRead) {
  EXPECT_EQ(read_message(at("missing.npz"), Code::io_error), "missing.npz: cannot be opened: No such file or directory");
  ASSERT_EQ(mkfifo(at("fifo").c_str(), 0600), 0);
  EXPECT_EQ(read_message(at("fifo"), Code::io_error), "fifo: is no regular file: expected a regular file");
  fs::create_directory(at("folder.npz"));
  EXPECT_EQ(read_message(at("folder.npz"), Code::io_error), "folder.npz: is a directory: expected a regular file");
  fs::create_symlink("/dev/zero", at("zero"));
  EXPECT_EQ(read_message(at("zero"), Code::io_error), "zero: is no regular file: expected a regular file");
  fs::create_symlink("loop", at("loop"));
  EXPECT_EQ(read_message(at("loop"), Code::io_error), "loop: cannot be opened: Too many levels of symbolic links");
}

TEST_F(Paths, AFileThatShrinksWhileItIsRead) {
  const fs::path path = put("x.safetensors", safetensors(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "abcd"));
  const Result<files::OpenFile> opened = files::open_regular(path);
  ASSERT_TRUE(opened.ok());
  fs::resize_file(path, fs::file_size(path) - 2);
  files::FileSource source(*opened);
  const Result<TensorFile> file = files::read_safetensors(source);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code, Code::io_error);
  EXPECT_EQ(file.status().message, R"(tensor "x": shrank while it was read)");
}

TEST_F(Paths, WhatDoesNotExistOnDiskIsNotAllocated) {
  // 2^40 bytes in a few blocks: the header is refused before any of them is read.
  const fs::path path = put("sparse.safetensors", safetensors("{}"));
  fs::resize_file(path, std::uintmax_t{1} << 40);
  EXPECT_EQ(read_message(path, Code::bad_file), "sparse.safetensors: bytes 0 to 1099511627766 of the data belong to no tensor");
}

TEST_F(Paths, TheExtensionDecidesWhatIsWritten) {
  const auto refused = [&](std::string_view name) {
    const Status status = write_tensor_file(at(name), one());
    EXPECT_EQ(status.code, Code::bad_parameter);
    return message(status);
  };
  EXPECT_EQ(refused("x"), "x: has no extension, which decides the format: expected .safetensors, .npz or .npy");
  EXPECT_EQ(refused("x.pt"), R"(x.pt: has the extension ".pt", which decides the format: expected .safetensors, .npz or .npy)");
  EXPECT_EQ(refused("x.NPZ"), R"(x.NPZ: has the extension ".NPZ", which decides the format: expected .safetensors, .npz or .npy)");
  EXPECT_TRUE(names().empty());
}

TEST_F(Paths, ARefusedTensorLeavesTheOldFile) {
  put("x.npz", "old");
  TensorFile file = one();
  file.tensors[0].format = Format::f8_e5m2;
  file.tensors[0].shape = {4};
  const Status status = write_tensor_file(at("x.npz"), file);
  EXPECT_EQ(status.code, Code::bad_tensor);
  EXPECT_EQ(message(status), R"(x.npz: tensor "x" is f8_e5m2, which numpy does not have: expected f16, f32, f64, or a .safetensors file)");
  EXPECT_EQ(content(at("x.npz")), "old");
}

TEST_F(Paths, ReplacingKeepsPermissionsAndLinks) {
  put("target.npy", "old");
  fs::permissions(at("target.npy"), fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read);
  fs::create_symlink("target.npy", at("link.npy"));
  ASSERT_TRUE(write_tensor_file(at("link.npy"), one()).ok());
  EXPECT_TRUE(fs::is_symlink(at("link.npy")));
  EXPECT_EQ(content(at("target.npy")), chars(*serialize_npy(one())));
  EXPECT_EQ(fs::status(at("target.npy")).permissions(), fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read);
  EXPECT_EQ(names(), (std::vector<std::string>{"link.npy", "target.npy"}));
}

TEST_F(Paths, ANewFileHasThePermissionsOfTheUser) {
  const mode_t old = umask(027);
  const Status status = write_tensor_file(at("x.npy"), one());
  umask(old);
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(static_cast<unsigned>(fs::status(at("x.npy")).permissions()), 0640U);
}

TEST_F(Paths, WhatIsNoRegularFileIsNotReplaced) {
  const auto refused = [&](std::string_view name) {
    const Status status = write_tensor_file(at(name), one());
    EXPECT_EQ(status.code, Code::io_error);
    return message(status);
  };
  ASSERT_EQ(mkfifo(at("fifo.npy").c_str(), 0600), 0);
  EXPECT_EQ(refused("fifo.npy"), "fifo.npy: is no regular file: expected a regular file");
  fs::create_directory(at("folder.npy"));
  EXPECT_EQ(refused("folder.npy"), "folder.npy: is a directory: expected a regular file");
  fs::create_symlink("/dev/full", at("full.npy"));
  EXPECT_EQ(refused("full.npy"), "full.npy: is no regular file: expected a regular file");
  fs::create_symlink("nowhere", at("dangling.npy"));
  EXPECT_EQ(refused("dangling.npy"), "dangling.npy: is a symbolic link that leads nowhere: No such file or directory");
  EXPECT_EQ(refused("missing/x.npy"), "missing/x.npy: cannot be written: No such file or directory");
  EXPECT_EQ(names(), (std::vector<std::string>{"dangling.npy", "fifo.npy", "folder.npy", "full.npy"}));
}

TEST_F(Paths, ADiskThatFillsUpLeavesTheOldFile) {
  put("x.npy", "old");
  // A limit on the size of files stands for the full disk: a write stores what fits, and the next one fails.
  struct rlimit old {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  struct rlimit small = old;
  small.rlim_cur = 100;
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = write_tensor_file(at("x.npy"), one());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.code, Code::io_error);
  EXPECT_EQ(message(status), "x.npy: cannot be written: File too large");
  EXPECT_EQ(content(at("x.npy")), "old");
  EXPECT_EQ(names(), std::vector<std::string>{"x.npy"});
}

TEST_F(Paths, AProcessThatIsKilledLeavesTheOldFileAlone) {
  put("x.npy", "old");
  const int nameless = ::open(directory_.c_str(), O_WRONLY | O_TMPFILE, 0600);
  if (nameless < 0) GTEST_SKIP() << directory_ << " is on a file system without nameless files";
  ::close(nameless);
  const pid_t child = fork();
  if (child == 0) {
    const struct rlimit small { 100, 100 };
    const struct rlimit none {};
    if (setrlimit(RLIMIT_FSIZE, &small) != 0 || setrlimit(RLIMIT_CORE, &none) != 0) _exit(2);
    std::signal(SIGXFSZ, SIG_DFL);  // kills at the second write
    _exit(write_tensor_file(at("x.npy"), one()).ok() ? 0 : 1);
  }
  int result = -1;
  ASSERT_EQ(waitpid(child, &result, 0), child);
  EXPECT_TRUE(WIFSIGNALED(result) && WTERMSIG(result) == SIGXFSZ) << result;
  EXPECT_EQ(content(at("x.npy")), "old");
  EXPECT_EQ(names(), std::vector<std::string>{"x.npy"});
}

// What a message shows of a path is all there is of it, and the message stays as it was meant.
TEST(Printable, ShowsWhatIsInvisible) {
  EXPECT_EQ(printable("caf\u00e9 \u4e16\u754c \U0001f600"), "caf\u00e9 \u4e16\u754c \U0001f600");
  for (const auto& [text, shown] : {std::pair{"a\u202eb", "a\\u{202e}b"},
                                    {"a\u200bb", "a\\u{200b}b"},
                                    {"a\u00adb", "a\\u{ad}b"},
                                    {"a\ufeffb", "a\\u{feff}b"},
                                    {"a\ufdd0b", "a\\u{fdd0}b"},
                                    {"a\uffffb", "a\\u{ffff}b"},
                                    {"a\U000e0041b", "a\\u{0e0041}b"},
                                    {"a\u2066b", "a\\u{2066}b"},
                                    {"a\nb", "a\\u{0a}b"}}) {
    EXPECT_EQ(printable(text), shown);
  }
  EXPECT_EQ(excerpt("a\nb"), "a\\u{0a}b");
  EXPECT_EQ(excerpt(std::string(300, 'x')), std::string(300, 'x'));
  EXPECT_EQ(excerpt(std::string(900, 'x')), std::string(300, 'x') + "… (900 bytes)");
}

TEST_F(Paths, ADirectoryThatIsNotWritable) {
  put("x.npy", "old");
  fs::permissions(directory_, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read | fs::perms::others_exec);
  // In a child that is not root, for whom permissions mean nothing.
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(2);
    const Status status = write_tensor_file(at("x.npy"), one());
    _exit(status.code == Code::io_error && message(status) == "x.npy: cannot be written: Permission denied" ? 0 : 1);
  }
  int result = -1;
  ASSERT_EQ(waitpid(child, &result, 0), child);
  EXPECT_EQ(result, 0);
  EXPECT_EQ(content(at("x.npy")), "old");
  EXPECT_EQ(names(), std::vector<std::string>{"x.npy"});
}

}  // namespace
}  // namespace norma
