#include <fmt/format.h>

#include "golden.h"
#include "norma/tensor_file.h"
#include "program.h"
#include "search.h"

namespace norma::program {

namespace fs = std::filesystem;
using properties::GoldenCase;

int write_large(const std::string& folder, std::uint64_t seed, const std::string& shard, std::int64_t cases) {
  std::int64_t share = 0, shares = 0;
  if (Status status = read_shard(shard, share, shares); !status.ok()) return fail(status);
  if (shares > cases) return fail({Code::bad_parameter, fmt::format("--shard {}: there are only {} cases", shard, cases)});
  // Neighbours, so that a share has some of every op and format.
  const std::int64_t begin = cases * (share - 1) / shares, end = cases * share / shares;
  Manifest mine{fmt::format("norma golden write --tier large --seed {} --cases {}", seed, cases), end - begin, {}};
  std::string manifest = fmt::format("{}.seed-{}", manifest_name, seed);
  if (shares != 1) {
    mine.command += fmt::format(" --shard {}/{}", share, shares);
    manifest += fmt::format(".{}-of-{}", share, shares);
  }
  const fs::path manifest_path = fs::path(folder) / manifest;
  if (Status status = make_folder(folder); !status.ok()) return fail(status);
  if (Status status = may_write_file(manifest_path); !status.ok()) return fail(status);
  const Result<Manifests> there = read_manifests(folder);
  if (!there.ok()) return fail(there.status());
  if (const auto old = there->by_name.find(manifest); old == there->by_name.end()) {
    // Before there is anything, so that whatever is made is seen to be a part.
    if (Status status = write_manifest(manifest_path, mine); !status.ok()) return fail(status);
  } else if (old->second.command != mine.command) {
    return fail({Code::bad_parameter, fmt::format("{} is of {}: expected the same command, or another folder",
                                                  printable(manifest_path.string()), old->second.command)});
  } else {
    mine = old->second;
  }
  // Which number a file is of, its name says; so what is there already need not be made to be recognized.
  const auto prefix = [&](std::int64_t number) { return fmt::format("large_{}_{:05}_", seed, number); };
  Progress progress("large cases", end - begin);
  std::int64_t kept = 0;
  std::uint64_t bytes = 0;
  const auto write_one = [&](std::int64_t number) -> Status {
    const auto old = there->sums.lower_bound(prefix(number));
    if (old != there->sums.end() && old->first.starts_with(prefix(number)) && is_there(folder, *old)) {
      std::error_code error;
      ++kept;
      bytes += fs::file_size(fs::path(folder) / old->first, error);
      return mine.sums.insert(*old).second ? write_manifest(manifest_path, mine) : Status{};
    }
    const properties::Vector v = properties::large_vector(seed, number);
    const Result<GoldenCase> g = properties::golden_case(v.c, v.comment);
    if (!g.ok()) return {g.status().code, fmt::format("{}: {}", v.comment, g.status().message)};
    TensorFile file;
    properties::add_to(file, *g);
    const Result<std::vector<std::byte>> text = serialize_safetensors(file);
    if (!text.ok()) return text.status();
    const std::string name = prefix(number) + properties::file_of(v.c) + ".safetensors";
    const Result<std::string> sum = sha256({reinterpret_cast<const char*>(text->data()), text->size()});
    if (!sum.ok()) return sum.status();
    // The file before its checksum: what is listed is there.
    if (Status status = write_file(fs::path(folder) / name, *text); !status.ok()) return status;
    bytes += text->size();
    mine.sums[name] = *sum;
    return write_manifest(manifest_path, mine);
  };
  for (std::int64_t number = begin; number < end; ++number) {
    progress.advance(1);
    if (Status status = write_one(number); !status.ok()) {
      progress.hide();
      return fail(status);
    }
  }
  progress.hide();
  fmt::print("{} files, {:.1f} MB in {}, {} of them were there; checksums in {}\n", end - begin, static_cast<double>(bytes) / 1e6,
             printable(folder), kept, manifest);
  return holds;
}

}  // namespace norma::program
