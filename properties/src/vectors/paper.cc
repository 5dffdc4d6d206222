// The numbers of the annotated paper (Ba, Kiros and Hinton 2016) and of the visual walkthrough, in every format.
#include <cmath>

#include "sources.h"

namespace norma::properties {
namespace {

// Four cases by five units; the third is nearly flat.
const std::vector<double> table{2, 4, 6, 8, 5, 1, 9, 3, 7, 0, 5, 5, 5, 6, 4, 8, 2, 7, 3, 6};

}  // namespace

std::vector<Vector> paper_vectors() {
  std::vector<Vector> all;
  const auto add = [&](Written w, const char* comment) { all.push_back({std::move(w.c), comment}); };
  for (const Format f : formats_of_x) {
    add({Op::batch_norm_training, f, {3, 1}, {1, 5, 9}, 0}, "Section 2: a batch of three");
    add({Op::layer_norm, f, {1, 4}, {2, 4, 6, 8}, 0}, "Section 3: one case of four units");
    add({Op::layer_norm, f, {4, 5}, table, 0}, "Section 3: every row of the table by itself");
    add({Op::batch_norm_training, f, {4, 5}, table, 0}, "Section 3: every column of the table");
    add({Op::rms_norm, f, {4, 5}, table, 0}, "Section 3: the table by root mean squares");
    add({Op::instance_norm, f, {1, 4, 5}, table, 0}, "Section 3: the table as four channels");
    add(Written{Op::group_norm, f, {1, 4, 5}, table, 0}.by_groups(2), "Section 3: the table as two groups of channels");
    add({Op::rms_norm, f, {1, 4}, {2, 4, 6, 8}, 0}, "After 2016: RMSNorm keeps the offset");
    add({Op::layer_norm, f, {1, 4}, {6, 12, 18, 24}, 0}, "Section 5: three times (2, 4, 6, 8) normalizes to the same");
    add({Op::layer_norm, f, {1, 4}, {2 * std::pow(1.2, 50), 4 * std::pow(1.2, 50), 6 * std::pow(1.2, 50), 8 * std::pow(1.2, 50)}, 0},
        "Section 3.1: summed inputs after 50 steps of 1.2, about 9,100 times as large");
    add({Op::batch_norm_training, f, {1, 3}, {3, -1, 7}}, "Section 1: a batch of one is flat, and beta is 0");
    add({Op::layer_norm, f, {1, 4}, {1, 2, 3, 4}}, "Walkthrough 6: centre, squeeze, guard");
    add({Op::layer_norm, f, {1, 4}, {1, 2, 3, 4}, 0}, "Walkthrough 5: centre and squeeze alone");
    add({Op::layer_norm, f, {1, 4}, {5, 5, 5, 5}}, "Walkthrough 8: the flat row");
    add(Written{Op::layer_norm, f, {1, 4}, {1, 2, 3, 4}}.with(Role::gamma, {2, 2, 2, 2}).with(Role::beta, {1, 1, 1, 1}),
        "Walkthrough 9: restyle by gain 2 and bias 1");
    const double undo = std::sqrt(1.25 + 1e-5);
    add(Written{Op::layer_norm, f, {1, 4}, {1, 2, 3, 4}}.with(Role::gamma, {undo, undo, undo, undo}).with(Role::beta, {2.5, 2.5, 2.5, 2.5}),
        "Walkthrough 9: gain sqrt(variance + epsilon) and bias mean undo it");
  }
  return all;
}

}  // namespace norma::properties
