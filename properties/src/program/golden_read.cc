#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "golden.h"
#include "norma/tensor_file.h"
#include "report.h"
#include "subjects.h"

namespace norma::program {

namespace fs = std::filesystem;
using properties::GoldenCase;

Result<std::vector<fs::path>> files_of(const std::string& folder, const std::vector<std::string_view>& extensions) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    const std::string extension = it->path().extension().string();
    if (std::find(extensions.begin(), extensions.end(), extension) != extensions.end()) paths.push_back(it->path());
  }
  if (error) return Status{Code::io_error, fmt::format("{}: {}", printable(folder), error.message())};
  if (paths.empty()) {
    return Status{Code::io_error,
                  fmt::format("{}: there are no files: expected some of *{}", printable(folder), fmt::join(extensions, ", *"))};
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

Result<GoldenFile> read_golden(const std::string& path) {
  const auto bad = [&](const std::string& what) { return Status{Code::bad_file, fmt::format("{}: {}", printable(path), what)}; };
  GoldenFile read;
  if (fs::path(path).extension() == ".safetensors") {
    Result<TensorFile> file = read_tensor_file(path);
    if (!file.ok()) return file.status();
    for (const auto& [id, call] : file->metadata) read.texts.push_back(call);
    Result<std::vector<GoldenCase>> cases = properties::golden_cases(std::move(*file));
    if (!cases.ok()) return bad(cases.status().message);
    read.cases = std::move(*cases);
    if (read.cases.empty()) return bad("there are no cases");
    return read;
  }
  // A hundred times what one has; what is made of it takes several times as much.
  constexpr std::uintmax_t most_bytes = 32'000'000;
  std::error_code none;
  if (fs::is_regular_file(path, none) && fs::file_size(path, none) > most_bytes) {
    return bad(fmt::format("has {} bytes: expected at most {}, or a .safetensors", fs::file_size(path, none), most_bytes));
  }
  const Result<nlohmann::ordered_json> json = read_json(path);
  if (!json.ok()) return json.status();
  if (!json->is_object() || json->value("format", nlohmann::ordered_json()) != "norma golden vectors 1") {
    return bad("expected an object with the format \"norma golden vectors 1\"");
  }
  if (!json->contains("cases") || !(*json)["cases"].is_array()) return bad("expected an array of cases");
  for (const nlohmann::ordered_json& j : (*json)["cases"]) {
    read.texts.push_back(j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    Result<GoldenCase> c = properties::parse_golden(read.texts.back());
    const std::string name = j.is_object() && j.contains("id") && j["id"].is_string() ? quote(j["id"].get<std::string>())
                                                                                      : fmt::format("number {}", read.cases.size() + 1);
    if (!c.ok()) return bad(fmt::format("case {}: {}", name, c.status().message));
    read.cases.push_back(std::move(*c));
  }
  if (read.cases.empty()) return bad("there are no cases");
  return read;
}

Status make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (fs::is_directory(path, error)) return {};
  return {Code::io_error, printable(path.string()) + " is no folder, and cannot be made one"};
}

Status GoldenChoice::check() const {
  if (const auto known = ops_of(ops); !known.ok()) return known.status();
  if (const auto known = formats_of(dtypes); !known.ok()) return known.status();
  std::vector<std::string_view> names;
  for (const properties::Flag& flag : properties::flags()) names.push_back(flag.name);
  for (const std::string& word : without) {
    if (Status status = known("--without", word, names, "flags"); !status.ok()) return status;
  }
  return {};
}

bool GoldenChoice::takes(const GoldenCase& g) const {
  const auto among = [](const auto& all, const auto& one) { return std::find(all.begin(), all.end(), one) != all.end(); };
  if (!ops.empty() && !among(*ops_of(ops), g.c.spec.op)) return false;
  if (!dtypes.empty() && !among(*formats_of(dtypes), g.c.x().format)) return false;
  return std::none_of(g.flags.begin(), g.flags.end(), [&](const std::string& flag) { return among(without, flag); });
}

Status GoldenChoice::all_chosen(const std::vector<std::string>& files) const {
  const auto nothing = [&](const char* option, const std::string& word) {
    return Status{Code::bad_parameter, fmt::format("{} {}: {} has no such cases that are chosen", option, word, printable(folder))};
  };
  for (const std::string& op : ops) {
    if (std::none_of(files.begin(), files.end(), [&](const std::string& file) { return file.starts_with(op + "_"); }))
      return nothing("--op", op);
  }
  for (const std::string& dtype : dtypes) {
    if (std::none_of(files.begin(), files.end(), [&](const std::string& file) { return file.ends_with("_" + dtype); }))
      return nothing("--dtype", dtype);
  }
  return {};
}

}  // namespace norma::program
