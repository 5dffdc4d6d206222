// The subjects that the program knows by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "norma/harness.h"

namespace norma::program {

// What comes with the program.
[[nodiscard]] const std::vector<properties::BuiltIn>& built_in_subjects();

// Whether start_subject knows the name; a path and a command it does not look at.
Status known_subject(const std::string& name);

// A built-in subject by name, `mutant:NAME`, the path of a shared library, or `exec:COMMAND`. bad_parameter for a name that is none,
// with the nearest one; other codes where the subject is there but cannot be run.
Result<std::unique_ptr<properties::Subject>> start_subject(const std::string& name, const properties::Limits& limits);

}  // namespace norma::program
