// Where golden cases come from.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "norma/vectors.h"

namespace norma::properties {

// In this order: generated cases are numbered by it.
inline constexpr Format formats_of_x[] = {Format::f32, Format::f64, Format::f16, Format::bf16};

std::vector<Vector> paper_vectors();      // the numbers of the paper and the walkthrough
std::vector<Vector> reported_vectors();   // public reports of others' faults
std::vector<Vector> found_vectors();      // counterexamples of the subjects that come with the program (docs/field_report.md)
std::vector<Vector> tie_vectors();        // near and exact ties, found by looking for them
std::vector<Vector> generated_vectors();  // every family of numbers, and every size at which kernels change
std::vector<Vector> shape_vectors();      // shapes that none of these has

// So many numbers, each made of its place.
std::vector<double> made(std::int64_t n, const std::function<double(double i)>& of);

// What a person writes down: x and parameters as the nearest numbers of a format.
struct Written {
  Case c;

  Written(Op op, Format format, Shape shape, const std::vector<double>& x, double epsilon = 1e-5);
  // γ, β or another tensor, of its own shape; of another format, if that is said.
  Written&& with(Role role, const std::vector<double>& values) &&;
  Written&& with(Role role, const std::vector<double>& values, Format format) &&;
  Written&& with(Profile profile) &&;
  Written&& by_groups(std::int64_t groups) &&;
  // Running statistics that take in the batch.
  Written&& running(const std::vector<double>& mean, const std::vector<double>& variance, double momentum) &&;
};

}  // namespace norma::properties
