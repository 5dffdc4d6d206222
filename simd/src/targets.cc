#include "norma/targets.h"

#include <hwy/targets.h>

namespace norma::simd {

std::vector<std::string> targets() {
  std::vector<std::string> names;
  const auto usable = static_cast<std::uint64_t>(hwy::SupportedTargets()) & static_cast<std::uint64_t>(HWY_TARGETS);
  for (std::uint64_t rest = usable; rest != 0; rest &= rest - 1) {  // better targets are lower bits
    names.emplace_back(hwy::TargetName(static_cast<decltype(hwy::SupportedTargets())>(rest & -rest)));
  }
  return names;
}

}  // namespace norma::simd
