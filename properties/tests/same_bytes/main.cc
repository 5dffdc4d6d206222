// same_bytes FOLDER: whether the golden files of a folder are what the compiler of this program makes of them. 0, or 1 and the first
// difference.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "norma/law.h"
#include "norma/vectors.h"

namespace norma::properties {

// What subjects say of laws is no part of a file: without the laws there is less to compile.
const Law* law_named(std::string_view /*slug*/) { return nullptr; }

namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int compare_with(const std::string& folder) {
  const Result<std::vector<GoldenText>> files = golden_files(vectors());
  if (!files.ok()) return std::printf("%s\n", files.status().message.c_str()), 1;
  for (const GoldenText& file : *files) {
    const std::string path = folder + "/" + file.name + ".json", is = contents(path);
    if (is == file.text) continue;
    const auto [a, b] = std::mismatch(is.begin(), is.end(), file.text.begin(), file.text.end());
    std::printf("%s: byte %td is in \"%s\", expected \"%s\"\n", path.c_str(), a - is.begin(),
                std::string(a, std::min(a + 40, is.end())).c_str(), std::string(b, std::min(b + 40, file.text.end())).c_str());
    return 1;
  }
  std::printf("%zu files are the same\n", files->size());
  return files->empty() ? 1 : 0;
}

}  // namespace
}  // namespace norma::properties

int main(int count, char** arguments) {
  if (count == 2) return norma::properties::compare_with(arguments[1]);
  std::fprintf(stderr, "usage: same_bytes FOLDER\n");
  return 2;
}
