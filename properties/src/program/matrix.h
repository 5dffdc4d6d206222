// norma check mutant:all: which law finds which mutant.
#pragma once

#include "norma/check.h"

namespace norma::program {

// Holds every law against every mutant, at `seeds` seeds from the one in the settings on, and prints what came of it. Returns `violated`
// where a mutant survives the law that means it, at any seed.
int print_matrix(const properties::Settings& settings, std::int64_t seeds, const properties::Limits& limits, bool json);

}  // namespace norma::program
