// Running statistics.
#include "faults.h"

namespace norma::properties {
namespace {

void swap_momentum(Call& call) {
  Momentum& m = call.spec.profile.momentum;
  m = m == Momentum::weight_of_new ? Momentum::weight_of_old : Momentum::weight_of_new;
}
void fixed_momentum(Call& call) { call.spec.momentum = 0.1; }

template <class T>
struct OtherEstimator : Kernel<T> {
  using Kernel<T>::Kernel;
  T running_variance(const Statistics<T>& s) const override {
    return s.squares / (this->profile().running_variance == Estimator::unbiased || s.n == 1 ? s.n : s.n - 1);
  }
};

template <class T>
struct OneValueUnguarded : Kernel<T> {
  using Kernel<T>::Kernel;
  T running_variance(const Statistics<T>& s) const override { return s.n == 1 ? s.squares / (s.n - 1) : Kernel<T>::running_variance(s); }
};

template <class T>
struct EmptyUnguarded : Kernel<T> {
  using Kernel<T>::Kernel;
  void finish() override {
    if (this->size(Role::x) != 0 || this->spec().op != Op::batch_norm_training) return;
    for (const Role role : {Role::running_mean, Role::running_variance}) {
      for (std::int64_t g = 0; this->wanted(role) && g < this->size(role); ++g) this->blend(role, g, T{0} / T{0});
    }
  }
};

template <class T>
struct InOneBuffer : Kernel<T> {
  using Kernel<T>::Kernel;
  void update(const Statistics<T>& s, std::int64_t g) override {
    Statistics<T> mixed = s;
    if (this->wanted(Role::running_mean)) mixed.mean = this->running_variance(s);
    Kernel<T>::update(mixed, g);
  }
};

// Constants of equal values were merged: where γ equals the running variance it is the running variance, and likewise β. Both are updated
// before y is made.
template <class T>
struct SharedBuffers : Kernel<T> {
  using Kernel<T>::Kernel;
  void group(const Places& group) override {
    shared_gain_ = equal(Role::gamma, Role::running_variance, group.front());
    shared_bias_ = equal(Role::beta, Role::running_mean, group.front());
    Kernel<T>::group(group);
  }
  void update(const Statistics<T>& /*s*/, std::int64_t /*g*/) override {}
  void apply(const std::vector<T>& x, const Statistics<T>& s, const Places& group) override {
    Kernel<T>::update(s, group.front().group);
    Kernel<T>::apply(x, s, group);
  }
  T gain(std::int64_t parameter) const override {
    return shared_gain_ ? this->old(Role::running_variance, parameter) : Kernel<T>::gain(parameter);
  }
  T bias(std::int64_t parameter) const override {
    return shared_bias_ ? this->old(Role::running_mean, parameter) : Kernel<T>::bias(parameter);
  }
  bool equal(Role parameter, Role running, const Place& at) const {
    return this->given(parameter) && this->wanted(running) && this->read(parameter, at.parameter) == this->old(running, at.group);
  }
  bool shared_gain_ = false, shared_bias_ = false;
};

// Inference that goes on learning.
template <class T>
struct UpdatesGiven : Kernel<T> {
  using Kernel<T>::Kernel;
  void finish() override {
    if (!this->given(Role::mean)) return;
    const ConstView& mean = *this->call_.inputs[Role::mean];
    for (const Places& group : this->groups_) {
      const std::vector<T> x = this->gather(group);
      const T blended =
          this->read(Role::mean, group.front().group) * static_cast<T>(0.9) + this->sum(x) / static_cast<T>(x.size()) * static_cast<T>(0.1);
      store(mean.format, nearest_bits(mean.format, static_cast<double>(blended)),
            const_cast<std::byte*>(mean.data) + this->offset(Role::mean, group.front().group) * info(mean.format).bytes());
    }
  }
};

constexpr Mutant table[] = {
    {"momentum-swapped", "the weight of the new value for that of the old one", "momentum-swapped", "PaddlePaddle/Paddle#51120",
     "running_update", misled<swap_momentum>},
    {"momentum-fixed", "momentum is 0.1 whatever is asked for", "", "", "running_update", misled<fixed_momentum>},
    {"running-variance-swapped", "the running variance is biased where unbiased was asked for, and the other way round",
     "bessel-running-var", "ml-explore/mlx#3817", "running_update", faulty<OtherEstimator>},
    {"running-in-one-buffer", "the running mean takes the variance", "", "", "running_update", faulty<InOneBuffer>},
    {"one-value-unguarded", "one value is divided by n − 1: 0/0", "bn-one-value", "torch/nn#1271", "batch_of_one",
     faulty<OneValueUnguarded>},
    {"empty-batch-nan", "an empty batch updates the running statistics by 0/0", "empty-input", "pytorch/pytorch#12013", "empty_and_single",
     faulty<EmptyUnguarded>},
    {"parameters-share-running-buffers", "gamma and beta that equal the running statistics are updated with them, before y is made",
     "aliased-params-running-stats", "microsoft/onnxruntime#29790", "running_update", faulty<SharedBuffers>},
    {"running-update-in-inference", "inference writes the mean that it is given", "", "", "input_unchanged", faulty<UpdatesGiven>},
};

}  // namespace

const std::span<const Mutant> faults_of_running_statistics = table;

}  // namespace norma::properties
