// Whose statistics a group gets.
#include <algorithm>
#include <optional>
#include <utility>

#include "faults.h"

namespace norma::properties {
namespace {

template <class T>
struct NextGroup : Kernel<T> {
  using Kernel<T>::Kernel;
  std::vector<T> sample(const Places& group) override {
    return this->gather(this->groups_[std::min(static_cast<std::size_t>(group.front().group) + 1, this->groups_.size() - 1)]);
  }
};

template <class T>
struct WholeBatch : Kernel<T> {
  using Kernel<T>::Kernel;
  std::vector<T> sample(const Places& /*group*/) override {
    if (all_.empty()) {  // once, before any y replaces its x
      for (const Places& group : this->groups_) {
        const std::vector<T> x = this->gather(group);
        all_.insert(all_.end(), x.begin(), x.end());
      }
    }
    return all_;
  }
  std::vector<T> all_;
};

template <class T>
struct FirstCase : Kernel<T> {
  using Kernel<T>::Kernel;
  std::vector<T> sample(const Places& group) override {
    std::vector<T> x = this->gather(group);
    if (this->spec().op == Op::batch_norm_training) x.resize(x.size() / static_cast<std::size_t>(this->shape().front()));
    return x;
  }
};

template <class T>
struct ReadsIntoNextRow : Kernel<T> {
  using Kernel<T>::Kernel;
  std::vector<T> sample(const Places& group) override {
    std::vector<T> x = this->gather(group);
    const std::int64_t next = group.back().element + 1;
    if (x.size() > 1 && next < this->size(Role::x)) x.back() = this->read(Role::x, next);
    return x;
  }
};

template <class T>
struct StaleMean : Kernel<T> {
  using Kernel<T>::Kernel;
  T squares_about(const std::vector<T>& x, T mean) override {
    const T stale = std::exchange(last_, mean).value_or(mean);
    return Kernel<T>::squares_about(x, stale);
  }
  std::optional<T> last_;
};

template <class T>
struct SumsNotReset : Kernel<T> {
  using Kernel<T>::Kernel;
  T squares_about(const std::vector<T>& x, T mean) override { return carried_ += Kernel<T>::squares_about(x, mean); }
  T carried_{};
};

template <class T>
struct ByRunningStatistics : Kernel<T> {
  using Kernel<T>::Kernel;
  void apply(const std::vector<T>& x, const Statistics<T>& s, const Places& group) override {
    Statistics<T> running = s;
    const std::int64_t g = group.front().group;
    if (this->wanted(Role::running_mean)) running.mean = this->old(Role::running_mean, g);
    if (this->wanted(Role::running_variance)) running.rstd = this->rstd(this->old(Role::running_variance, g));
    Kernel<T>::apply(x, running, group);
  }
};

void as_training(Call& call) {
  if (call.spec.op != Op::batch_norm_inference) return;
  call.spec.op = Op::batch_norm_training;
  for (const Role role : {Role::mean, Role::variance}) call.inputs[role].reset();
}

constexpr Mutant table[] = {
    {"statistics-of-next-group", "a group is normalized by the statistics of the one after it", "", "", "no_leak", faulty<NextGroup>},
    {"statistics-of-whole-batch", "all groups are normalized by the statistics of all elements", "", "", "no_leak", faulty<WholeBatch>},
    {"statistics-of-first-case", "the batch's statistics are those of its first case", "", "", "batch_dependence", faulty<FirstCase>},
    {"reads-into-next-row", "the last element of a row is read one element too far", "", "", "no_leak", faulty<ReadsIntoNextRow>},
    {"stale-mean", "squares are taken about the mean of the group before: a missing barrier", "smem-race", "ml-explore/mlx#2340", "no_leak",
     faulty<StaleMean>},
    {"sums-not-reset", "the sum of squares starts with that of the group before", "", "", "no_leak", faulty<SumsNotReset>},
    {"running-statistics-in-training", "training normalizes by the running statistics", "", "", "running_update",
     faulty<ByRunningStatistics>},
    {"batch-statistics-in-inference", "inference normalizes by the statistics of the batch", "", "", "no_leak", misled<as_training>},
};

}  // namespace

const std::span<const Mutant> faults_of_groups = table;

}  // namespace norma::properties
