// Whatever the bytes: a parser answers with a status of one printable line, or with tensors that survive being written and read again,
// in the same format to the last byte and in the others wherever these can hold them.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "norma/tensor_file.h"
#include "source.h"

namespace {

using namespace norma;
using Bytes = std::span<const std::byte>;

struct Container {
  const char* name;
  Result<TensorFile> (*parse)(Bytes);
  Result<std::vector<std::byte>> (*serialize)(const TensorFile&);
};
constexpr Container containers[] = {
    {"safetensors", parse_safetensors, serialize_safetensors},
    {"npy", parse_npy, serialize_npy},
    {"npz", parse_npz, serialize_npz},
};

void require(bool condition, const Container& container, const char* what, const std::string& message = "") {
  if (condition) return;
  std::fprintf(stderr, "%s: %s: %s\n", container.name, what, message.c_str());
  std::abort();
}

void check_message(const Container& container, const Status& status, Code expected) {
  const std::string& message = status.message;
  const bool printable = std::all_of(message.begin(), message.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
  require(status.code == expected && printable && !message.empty() && message.size() < 3000, container, "message", message);
}

// The readers of a tensor at a time, which see what the others read.
void visit(Bytes bytes) {
  std::size_t seen = 0;
  const TensorVisitor all{.wanted = [](const TensorHeader& header) -> Result<std::optional<Format>> { return header.format; },
                          .see =
                              [&](Tensor&& t) {
                                seen += t.data.size();
                                return Status{};
                              }};
  files::MemorySource json(bytes), safetensors(bytes);
  if (const Status status = files::visit_golden_json(json, all); !status.ok()) {
    require(status.code == Code::bad_file || status.code == Code::bad_tensor, containers[0], "code", status.message);
    check_message(containers[0], status, status.code);
  }
  seen = 0;
  const Status status = files::visit_safetensors(safetensors, all);
  const Result<TensorFile> whole = parse_safetensors(bytes);
  require(status.ok() == whole.ok(), containers[0], "is read whole, or a tensor at a time, but not both", status.message);
  if (!whole.ok()) return;
  for (const Tensor& t : whole->tensors) seen -= t.data.size();
  require(seen == 0, containers[0], "has other tensors one at a time");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes = std::as_bytes(std::span(data, size));
  for (const Container& container : containers) {
    Result<TensorFile> parsed = container.parse(bytes);
    if (!parsed.ok()) {
      check_message(container, parsed.status(), Code::bad_file);
      continue;
    }
    for (const auto& [name, dtype] : parsed->unreadable) check_message(container, parsed->get(name).status(), Code::bad_tensor);
    parsed->unreadable.clear();
    for (const Container& other : containers) {
      const auto written = other.serialize(*parsed);
      if (!written.ok()) {
        check_message(other, written.status(), Code::bad_tensor);
        // A .npy without a tensor had an unreadable one.
        require(&other != &container || parsed->tensors.empty(), container, "cannot be written", written.status().message);
        continue;
      }
      const Result<TensorFile> again = other.parse(*written);
      require(again.ok(), other, "cannot be read again", again.ok() ? "" : again.status().message);
      if (other.parse == parse_npy) parsed->tensors.front().name.clear();
      require(*again == *parsed, other, "differs when read again");
      const auto twice = other.serialize(*again);
      require(twice.ok() && *twice == *written, other, "differs when written again");
    }
  }
  visit(bytes);
  return 0;
}
