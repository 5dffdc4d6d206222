// A function behind a wall, a small case to ask it of, and whether somebody is left behind.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "norma/harness.h"
#include "norma/reference.h"

namespace norma::properties {

inline Case small_case(std::uint64_t salt = 0) {
  Case c = *parse_case("layer_norm f32 x=f32[2,3]:3f800000,40000000,40400000,3f800000*2,40000000 gamma=f32[3]:3f800000*3 epsilon=0x1p-17");
  c.salt = salt;
  return c;
}

inline Status by_reference(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs) {
  return compute(spec, with_running(inputs, outputs), outputs);
}

inline std::unique_ptr<Subject> started(const BuiltIn& subject) {
  Limits limits;
#if defined(NORMA_SANITIZE)
  limits.memory = 0;
#endif
  Result<std::unique_ptr<Subject>> s = start(subject, limits);
  EXPECT_TRUE(s.ok()) << s.status().message;
  return std::move(*s);
}

using Normalize = std::function<Status(const Spec&, const ByRole<ConstView>&, const ByRole<View>&)>;
inline std::unique_ptr<Subject> behind_wall(Normalize normalize, Limits limits = {}) {
  Result<std::unique_ptr<Subject>> subject = start(BuiltIn{"test", "", "", std::move(normalize)}, limits);
  EXPECT_TRUE(subject.ok()) << subject.status().message;
  return std::move(*subject);
}

// Whether a process ends in the next seconds, by its number in decimal. One that nobody waits for stays as a name.
inline bool ends(const std::string& pid) {
  for (int i = 0; i < 300; ++i) {
    std::ifstream file("/proc/" + pid + "/stat");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    if (text.empty() || text.find(") Z") != std::string::npos || text.find(") X") != std::string::npos) return true;
    usleep(10'000);
  }
  return false;
}

}  // namespace norma::properties
