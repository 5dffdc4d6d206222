#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "golden.h"
#include "norma/tensor_file.h"
#include "program.h"
#include "settings.h"

namespace norma::program {
namespace {

namespace fs = std::filesystem;
using properties::GoldenCase;

struct NamedFile {
  std::string name;  // layer_norm_f32
  GoldenFile golden;
};

struct Written {
  std::size_t files = 0, bytes = 0;
};

Status put(const fs::path& path, std::span<const std::byte> bytes, Written& written) {
  ++written.files;
  written.bytes += bytes.size();
  return write_file(path, bytes, Sync::no);
}

template <class Serialize>
int write_tensors(const std::vector<NamedFile>& files, const fs::path& out, const char* extension, Serialize serialize) {
  Written written;
  for (const NamedFile& file : files) {
    const fs::path path = out / (file.name + extension);
    TensorFile tensors;
    for (const GoldenCase& g : file.golden.cases) properties::add_to(tensors, g);
    const Result<std::vector<std::byte>> bytes = serialize(tensors);
    if (!bytes.ok()) return fail({bytes.status().code, fmt::format("{}: {}", printable(path.string()), bytes.status().message)});
    if (Status status = put(path, *bytes, written); !status.ok()) return fail(status);
  }
  fmt::print("{} files, {:.1f} MB in {}\n", written.files, static_cast<double>(written.bytes) / 1e6, printable(out.string()));
  return holds;
}

int write_safetensors(const std::vector<NamedFile>& files, const fs::path& out) {
  return write_tensors(files, out, ".safetensors", serialize_safetensors);
}
int write_npz(const std::vector<NamedFile>& files, const fs::path& out) {
  return write_tensors(files, out, ".npz", [](const TensorFile& file) { return serialize_npz(file, Foreign::as_bits); });
}

int write_onnx(const std::vector<NamedFile>& files, const fs::path& out) {
  std::int64_t cases = 0;
  for (const NamedFile& file : files) cases += static_cast<std::int64_t>(file.golden.cases.size());
  Progress progress("exporting", cases);
  std::map<std::string_view, std::int64_t> skipped;
  std::int64_t folders = 0;
  std::set<fs::path> kept;
  Written written;
  for (const NamedFile& file : files) {
    for (const GoldenCase& g : file.golden.cases) {
      progress.advance(1);
      const Result<properties::OnnxTest> test = properties::to_onnx(g);
      if (!test.ok()) return fail({test.status().code, fmt::format("{}: {}", quote(g.id), test.status().message)});
      if (!test->obstacle.empty()) {
        ++skipped[test->obstacle];
        continue;
      }
      const fs::path folder = out / ("test_" + g.id);
      kept.insert(folder.filename());
      // The model comes last, and goes first.
      std::error_code none;
      fs::remove(folder / "model.onnx", none);
      for (const properties::OnnxTest::File& part : test->files) {
        const fs::path path = folder / part.path;
        if (Status status = make_folder(path.parent_path()); !status.ok()) return fail(status);
        if (Status status = put(path, std::as_bytes(std::span(part.bytes)), written); !status.ok()) return fail(status);
      }
      ++folders;
    }
  }
  progress.hide();
  std::vector<std::pair<std::string_view, std::int64_t>> reasons(skipped.begin(), skipped.end());
  std::stable_sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  if (folders == 0) {
    return fail({Code::bad_parameter,
                 fmt::format("nothing to export: ONNX can say none of the {} cases, most of them for {}", cases, reasons[0].first)});
  }
  fmt::print("{} folders, {:.1f} MB in {}\n", folders, static_cast<double>(written.bytes) / 1e6, printable(out.string()));
  std::error_code error;
  const auto others = std::count_if(fs::directory_iterator(out, error), fs::directory_iterator(), [&](const fs::directory_entry& entry) {
    return entry.path().filename().string().starts_with("test_") && !kept.contains(entry.path().filename());
  });
  if (others > 0) fmt::print("beside them {} folders test_* that are not of these cases\n", others);
  if (reasons.empty()) return holds;
  fmt::print("{} cases that ONNX cannot say:\n", cases - folders);
  std::vector<std::vector<std::string>> rows;
  rows.reserve(reasons.size());
  for (const auto& [reason, count] : reasons) rows.push_back({std::to_string(count), std::string(reason)});
  print_table(rows, 2);
  return holds;
}

struct Form {
  std::string_view name;
  int (*write)(const std::vector<NamedFile>& files, const fs::path& out);
};
constexpr std::array<Form, 3> forms{{{"safetensors", write_safetensors}, {"npz", write_npz}, {"onnx", write_onnx}}};

}  // namespace

int export_golden(const std::string& folder, const std::string& format, const std::string& out) {
  std::array<std::string_view, forms.size()> names;
  std::transform(forms.begin(), forms.end(), names.begin(), [](const Form& each) { return each.name; });
  const auto form = std::find_if(forms.begin(), forms.end(), [&](const Form& each) { return each.name == format; });
  if (form == forms.end()) {
    return fail(
        {Code::bad_parameter, fmt::format("--format {}: expected {}{}", quote(format), fmt::join(names, ", "), suggestion(format, names))});
  }
  // All is read before anything is written.
  const Result<std::vector<fs::path>> paths = files_of(folder);
  if (!paths.ok()) return fail(paths.status());
  std::vector<NamedFile> files;
  std::set<std::string> ids;
  for (const fs::path& path : *paths) {
    Result<GoldenFile> read = read_golden(path.string());
    if (!read.ok()) return fail(read.status());
    for (const GoldenCase& g : read->cases) {
      // It becomes the name of folders, and of tensors before a point.
      const bool plain = std::all_of(g.id.begin(), g.id.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
      if (g.id.empty() || !plain || !ids.insert(g.id).second) {
        return fail({Code::bad_file, fmt::format("{}: case {}: expected an id of its own, of letters, digits and _",
                                                 printable(path.string()), quote(g.id))});
      }
    }
    files.push_back({path.stem().string(), std::move(*read)});
  }
  if (std::error_code none; fs::equivalent(folder, out, none)) {
    return fail({Code::bad_parameter, fmt::format("--out: {} is the folder of the golden files: expected another one", printable(out))});
  }
  if (Status status = make_folder(out); !status.ok()) return fail({status.code, "--out: " + status.message});
  return form->write(files, out);
}

}  // namespace norma::program
