// What parameterized tests run over.
#pragma once

#include "trial.h"

namespace norma::simd {

struct Kind {
  Op op;
  Format format;
  Format params;
};
inline void PrintTo(const Kind& kind, std::ostream* to) {
  *to << info(kind.op).name << " " << info(kind.format).name << " params " << info(kind.params).name;
}
struct KindName {
  std::string operator()(const ::testing::TestParamInfo<Kind>& each) const {
    const Kind& kind = each.param;
    std::string text = std::string(info(kind.op).name) + "_" + std::string(info(kind.format).name);
    if (kind.params != kind.format) text += "_params_" + std::string(info(kind.params).name);
    return text;
  }
};

// Every op and format, with parameters of that format; and those with parameters in f32.
inline std::vector<Kind> kinds() {
  std::vector<Kind> all;
  for (const Op op : offered_ops) {
    for (const Format format : offered_formats) all.push_back({op, format, format});
  }
  return all;
}
inline std::vector<Kind> kinds_with_params() {
  std::vector<Kind> all = kinds();
  for (const Op op : offered_ops) {
    for (const Format format : offered_formats) {
      if (format != Format::f32) all.push_back({op, format, Format::f32});
    }
  }
  return all;
}

}  // namespace norma::simd
