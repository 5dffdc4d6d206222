// Golden files as the commands of `norma golden` find them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "norma/status.h"
#include "norma/vectors.h"

namespace norma::program {

// The paths of the files of a folder, in the order of their names; at least one.
Result<std::vector<std::filesystem::path>> files_of(const std::string& folder,
                                                    const std::vector<std::string_view>& extensions = {".json", ".safetensors"});

// The cases of a file, at least one, and the text of each in it, in a .safetensors that without tensors.
struct GoldenFile {
  std::vector<properties::GoldenCase> cases;
  std::vector<std::string> texts;
};
Result<GoldenFile> read_golden(const std::string& path);

// Which cases of a folder somebody wants to have looked at.
struct GoldenChoice {
  std::string folder;
  std::vector<std::string> ops, dtypes, without;  // the words of the options

  // Whether the words are known; then what they choose.
  [[nodiscard]] Status check() const;
  [[nodiscard]] bool takes(const properties::GoldenCase& g) const;
};

// Every case put to a subject; and what somebody's program made of them, in files.
int verify_subject(const std::string& name, const GoldenChoice& choice, double seconds);
int verify_outputs(const std::string& outputs, const GoldenChoice& choice);

// The large tier: a file a case, and a manifest of their checksums.
int write_large(const std::string& folder, std::uint64_t seed, const std::string& shard, std::int64_t cases);
// Whether what the manifests of a folder list is there; as it was written, is for lint to say.
[[nodiscard]] Status all_there(const std::string& folder);
// Where the manifests of a folder and its files differ; nowhere where there are no manifests.
Result<std::vector<std::string>> manifest_faults(const std::string& folder, const std::vector<std::filesystem::path>& paths);

// Makes a folder, if it is none yet.
Status make_folder(const std::filesystem::path& path);

// norma golden export: the files of a folder in a form that others read, into another folder.
int export_golden(const std::string& folder, const std::string& format, const std::string& out);

}  // namespace norma::program
