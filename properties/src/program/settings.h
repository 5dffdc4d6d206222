// What a user can say about a call, as one table: it makes the flags of every command, is looked up in the metadata of files, and is what
// `norma list settings` prints.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "norma/rounding.h"
#include "norma/spec.h"
#include "norma/status.h"
#include "norma/tensor_file.h"

namespace norma::program {

// A call as far as settings decide it.
struct Call {
  Spec spec;
  Mode mode = Mode::nearest_even;
  bool op_given = false;
  bool batch_norm = false;  // "batch_norm": training or inference, whichever the inputs say
  bool layout_given = false;
  std::optional<Format> dtype;  // of y

  friend bool operator==(const Call&, const Call&) = default;
};

struct Setting {
  std::string_view name;
  std::string_view values;
  std::string_view help;
  Status (*apply)(std::string_view value, Call& call);
};
[[nodiscard]] std::span<const Setting> settings();

// The words a user gave, by setting.
using Words = std::map<std::string, std::string, std::less<>>;

// A flag for every setting, writing into `words`.
void add_flags(CLI::App& command, Words& words);

// Applies what `metadata` says, then what `words` say. Metadata that names no setting, nor nearly one, is somebody else's.
using Metadata = std::map<std::string, std::string>;
Result<Call> apply(const Metadata& metadata, const Words& words);

// What both say together, the words where they differ.
[[nodiscard]] Words effective(const Metadata& metadata, const Words& words);

// A call and its inputs, views into `file`. Every tensor of the file must have a part in the op: a "bias" that is silently ignored makes a
// wrong verdict.
struct BoundCall {
  Call call;
  Words words;  // that led to it; the op and the axis as they came out
  ByRole<ConstView> inputs;
};
Result<BoundCall> assign_roles(const TensorFile& file, const std::string& path, const Words& words);

// The names of the roles in either set.
[[nodiscard]] std::vector<std::string_view> role_list(const Roles& roles, const Roles& more = {});

// ", did you mean NAME?" for the nearest of the names, or "" if none is near.
[[nodiscard]] std::string suggestion(std::string_view word, std::span<const std::string_view> names);

// Adds what the metadata of a results file says to that of its inputs. A contradiction that no word decides is refused.
Status merge(Metadata& inputs, const Metadata& results, const Words& words);

// Without blanks at the ends; `keep_negative_numbers` in main.cc puts one there.
[[nodiscard]] std::string trimmed(const std::string& word);

// A number that people can check: the value, and its hexadecimal form where the decimal is not the whole truth.
[[nodiscard]] std::string describe_epsilon(double epsilon);

}  // namespace norma::program
