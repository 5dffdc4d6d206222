// The program as its users meet it: words in, text and exit status out.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "norma/tensor_file.h"

namespace norma {

namespace fs = std::filesystem;

// The one that was built with the tests, or another build of it.
inline const std::string& program() {
  static const std::string path = [] {
    const char* const other = std::getenv("NORMA_PROGRAM");
    return std::string(other != nullptr ? other : NORMA_PROGRAM);
  }();
  return path;
}

inline std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Outcome {
  int status;
  std::string out;
  std::string err;
};

class Program : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "norma_program_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] fs::path at(const std::string& name) const { return folder_ / name; }

  // Runs a command in the test's own folder, or in another one.
  [[nodiscard]] Outcome shell(const std::string& words, const std::string& folder = ".") const {
    const std::string to = at("").string();
    const std::string command = "cd " + to + " && cd " + folder + " && " + words + " >" + to + ".out 2>" + to + ".err </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(at(".out")), contents(at(".err"))};
  }
  // The program.
  [[nodiscard]] Outcome norma(const std::string& arguments, const std::string& folder = ".") const {
    return shell(program() + " " + arguments, folder);
  }

  // The program refused: exit status 2, nothing on standard output, and one line that contains the words.
  void expect_refusal(const std::string& arguments, std::initializer_list<std::string> words) const {
    const Outcome o = norma(arguments);
    EXPECT_EQ(o.status, 2) << arguments << "\n" << o.err;
    EXPECT_EQ(o.out, "") << arguments;
    EXPECT_TRUE(o.err.starts_with("norma: ")) << o.err;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    for (const std::string& word : words)
      EXPECT_NE(o.err.find(word), std::string::npos) << arguments << "\nlacks \"" << word << "\":\n" << o.err;
  }

  void write(const std::string& name, std::vector<Tensor> tensors, std::map<std::string, std::string> metadata) const {
    const Status s = write_tensor_file(at(name), TensorFile{std::move(tensors), std::move(metadata), {}});
    ASSERT_TRUE(s.ok()) << s.message;
  }

 private:
  fs::path folder_;
};

}  // namespace norma
