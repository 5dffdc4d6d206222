// Golden files as the commands of `norma golden` find them.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
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
  // Whether each op and format has chosen something; by the files that the cases belong to, OP_FORMAT.
  [[nodiscard]] Status all_chosen(const std::vector<std::string>& files) const;
};

// Every case put to a subject; and what somebody's program made of them, in files.
int verify_subject(const std::string& name, const GoldenChoice& choice, double seconds);
int verify_outputs(const std::string& outputs, const GoldenChoice& choice);

// The large tier: a file a case.
int write_large(const std::string& folder, std::uint64_t seed, const std::string& shard, std::int64_t cases);

// What a folder has, as sha256sum checks it, and before that, in a comment, what it is to have: a part is not taken for the whole.
inline constexpr std::string_view manifest_name = "SHA256SUMS";  // with something after it, where a folder has several
struct Manifest {
  std::string command;  // that makes the files
  std::int64_t files = 0;
  std::map<std::string, std::string> sums;  // by file name
};
struct Manifests {
  std::map<std::string, Manifest> by_name;
  std::map<std::string, std::string> sums;  // of them all
};
Result<std::string> sha256(std::string_view bytes);
std::string to_text(const Manifest& manifest);
[[nodiscard]] Status write_manifest(const std::filesystem::path& path, const Manifest& manifest);
// All of a folder, none perhaps; what two of them say differently is refused.
Result<Manifests> read_manifests(const std::filesystem::path& folder);
// Whether a file is there as it is listed.
bool is_there(const std::filesystem::path& folder, const std::pair<const std::string, std::string>& listed);
// Whether every file is listed and there; that it is as it was written, is for lint to say.
[[nodiscard]] Status all_there(const std::filesystem::path& folder);
// Where the manifests of a folder and its files differ; nowhere where there are no manifests.
Result<std::vector<std::string>> manifest_faults(const std::filesystem::path& folder, const std::vector<std::filesystem::path>& paths);

// Makes a folder, if it is none yet.
Status make_folder(const std::filesystem::path& path);

// norma golden export: the files of a folder in a form that others read, into another folder.
int export_golden(const std::string& folder, const std::string& format, const std::string& out);

}  // namespace norma::program
