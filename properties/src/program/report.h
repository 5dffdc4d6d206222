// What a check found, for people, for CI and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "norma/check.h"
#include "norma/status.h"

namespace norma::program {

// Whether a report is a failure: a broken `must`, or a law that was asked and tested nothing; with `strict` a broken `should` too.
[[nodiscard]] bool fails(const properties::Report& report, bool strict);

// `subject` as the user named it, for commands to repeat.
[[nodiscard]] std::string to_text(const properties::Report& report, const std::string& subject, bool strict);
[[nodiscard]] std::string to_markdown(const properties::Report& report, const std::string& subject, bool strict);
[[nodiscard]] std::string to_junit(const properties::Report& report, const std::string& subject, bool strict);
[[nodiscard]] nlohmann::ordered_json to_json(const properties::Report& report, const std::string& subject, bool strict);

// Whether write_file could put a file there, before any work is done.
Status check_writable(const std::string& path);

}  // namespace norma::program
