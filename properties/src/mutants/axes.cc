// Axes, groups and strides.
#include <algorithm>
#include <cstdint>

#include "faults.h"

namespace norma::properties {
namespace {

void last_axis(Call& call) {
  if (by_row(call.spec)) call.spec.axis = -1;
}
void one_group(Call& call) {
  if (call.spec.op == Op::group_norm) call.spec.groups = 1;
}
void strides_of_x_ignored(Call& call) { call.inputs[Role::x]->strides.clear(); }
void strides_of_y_ignored(Call& call) { call.outputs[Role::y]->strides.clear(); }
void channels_first(Call& call) {
  ConstView& x = *call.inputs[Role::x];
  if (!by_row(call.spec) && x.shape.size() > 2 && !x.strides.empty() && x.strides[1] == 1) x.strides.clear();
}
void aligned(Call& call) {
  ConstView& x = *call.inputs[Role::x];
  x.data -= reinterpret_cast<std::uintptr_t>(x.data) % 16;
}

template <class T>
struct GroupsInterleaved : Kernel<T> {
  using Kernel<T>::Kernel;
  Membership grouping() const override {
    Membership m = Kernel<T>::grouping();
    if (this->spec().op != Op::group_norm) return m;
    const std::int64_t groups = *this->spec().groups;
    for (std::size_t i = 0; i < m.group.size(); ++i) m.group[i] = m.group[i] / groups * groups + m.parameter[i] % groups;
    return m;
  }
};

template <class T>
struct OffsetOf16Bits : Kernel<T> {
  using Kernel<T>::Kernel;
  std::int64_t offset(Role role, std::int64_t element) const override {
    const std::int64_t right = Kernel<T>::offset(role, element);
    return role == Role::x ? static_cast<std::int16_t>(right) : right;
  }
};

template <class T>
struct RowsOfFirstAxis : Kernel<T> {
  using Kernel<T>::Kernel;
  void group(const Places& group) override {
    if (!by_row(this->spec()) || group.front().group < this->shape().front()) Kernel<T>::group(group);
  }
};

constexpr Mutant table[] = {
    {"wrong-axis", "normalizes the last axis, whichever was asked for", "wrong-axis", "microsoft/onnxruntime#26407",
     "agrees_with_reference", misled<last_axis>},
    {"rows-of-first-axis-only", "there are as many rows as the first axis is long", "", "", "axis_and_rank", faulty<RowsOfFirstAxis>},
    {"groups-interleaved", "channel c belongs to group c mod groups", "", "", "agrees_with_reference", faulty<GroupsInterleaved>},
    {"groups-ignored", "all channels of a case are one group", "", "", "group_norm_limits", misled<one_group>},
    {"stride-ignored", "x is read as if it were contiguous", "stride-ignored", "microsoft/DirectML#588", "strides_honoured",
     misled<strides_of_x_ignored>},
    {"y-stride-ignored", "y is written as if it were contiguous", "", "", "strides_honoured", misled<strides_of_y_ignored>},
    {"channels-last-as-first", "NHWC is read as NCHW", "channels-last", "pytorch/pytorch#175189", "layouts_agree", misled<channels_first>},
    {"alignment-assumed", "the low four bits of the address of x are ignored", "", "", "alignment_in_bound", misled<aligned>},
    {"offset-of-16-bits", "offsets into x have 16 bits, as others have 32", "index-overflow", "pytorch/pytorch#181555", "large_n",
     faulty<OffsetOf16Bits>},
};

}  // namespace

const std::span<const Mutant> faults_of_axes = table;

}  // namespace norma::properties
