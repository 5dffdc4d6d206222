// Golden files as the commands of `norma golden` find them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "norma/status.h"
#include "norma/vectors.h"

namespace norma::program {

// The paths of the golden files of a folder, in the order of their names; at least one.
Result<std::vector<std::filesystem::path>> files_of(const std::string& folder);

// The cases of a file, at least one, and the text of each in it.
struct GoldenFile {
  std::vector<properties::GoldenCase> cases;
  std::vector<std::string> texts;
};
Result<GoldenFile> read_golden(const std::string& path);

// Makes a folder, if it is none yet.
Status make_folder(const std::filesystem::path& path);

// norma golden export: the files of a folder in a form that others read, into another folder.
int export_golden(const std::string& folder, const std::string& format, const std::string& out);

}  // namespace norma::program
