#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>

#include "environment.h"
#include "kernels.h"

namespace norma::simd {
namespace {

bool by_rows(Op op) { return op == Op::layer_norm || op == Op::rms_norm; }

// Contiguous extent of one row of x (simd.h), how many rows there are, and how many elements a group has.
std::size_t row_length(const Call& call) {
  if (by_rows(call.op)) return call.cols;
  return call.layout == Layout::channels_first ? call.channels * call.positions : call.channels;
}

std::size_t row_count(const Call& call) {
  if (by_rows(call.op)) return call.rows;
  return call.layout == Layout::channels_first ? call.cases : call.cases * call.positions;
}

std::size_t group_size(const Call& call) {
  if (by_rows(call.op)) return call.cols;
  if (info(call.op).grouping == Grouping::channel) return call.cases * call.positions;
  return call.positions * channels_of_group(call);
}

// ---- Validation -----------------------------------------------------------------------------------------------------------------------

bool multiplies(std::size_t a, std::size_t b, std::size_t limit) { return b == 0 || a <= limit / b; }

Status validate(const Call& call) {
  const auto refuse = [](Code code, std::string_view what, std::string_view expected) {
    return Status{code, std::string(what) + ": expected " + std::string(expected)};
  };
  if (static_cast<std::size_t>(call.op) >= ops.size() || call.op == Op::weight_norm) {
    return refuse(Code::bad_parameter, "op",
                  "layer_norm, rms_norm, batch_norm_training, batch_norm_inference, group_norm or instance_norm");
  }
  const OpInfo& op = info(call.op);
  if (call.accuracy != Accuracy::correctly_rounded && call.accuracy != Accuracy::fast) {
    return refuse(Code::bad_parameter, "accuracy", "correctly_rounded or fast");
  }
  Profile offered;
  offered.gain_offset = call.profile.gain_offset;
  offered.running_variance = call.profile.running_variance;
  offered.momentum = call.profile.momentum;
  if (!(call.profile == offered)) {
    return refuse(Code::bad_parameter, "profile", "epsilon inside, biased variance, no cast before the gain, a rounded residual sum");
  }
  if (call.format != Format::f32 && call.format != Format::f64 && call.format != Format::f16 && call.format != Format::bf16) {
    return refuse(Code::bad_parameter, "format", "f32, f64, f16 or bf16");
  }
  if (call.params != Format::f32 && call.params != call.format) return refuse(Code::bad_parameter, "params", "f32 or the format of x");
  if (call.statistics != Format::f32 && call.statistics != call.format) {
    return refuse(Code::bad_parameter, "statistics", "f32 or the format of x");
  }
  if (!(call.epsilon >= 0 && call.epsilon <= std::numeric_limits<double>::max())) {
    return refuse(Code::bad_epsilon, "epsilon", "a finite number >= 0, and given: it has no default");
  }
  // Sizes: no group beyond the limit, and no tensor whose bytes an index cannot count.
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / sizeof(double);
  if (by_rows(call.op)) {
    if (call.cols > largest_group) return refuse(Code::bad_shape, "cols", "at most 2^31");
    if (!multiplies(call.rows, call.cols, most)) return refuse(Code::bad_shape, "rows x cols", "a product that fits the address space");
  } else {
    if (call.layout != Layout::channels_first && call.layout != Layout::channels_last) {
      return refuse(Code::bad_parameter, "layout", "channels_first or channels_last");
    }
    if (call.op == Op::group_norm && (call.groups == 0 || call.channels % call.groups != 0)) {
      return refuse(Code::bad_groups, "groups", "a divisor of the number of channels");
    }
    if (!multiplies(call.cases, call.positions, most) || !multiplies(call.cases * call.positions, call.channels, most)) {
      return refuse(Code::bad_shape, "cases x channels x positions", "a product that fits the address space");
    }
    if (group_size(call) > largest_group) return refuse(Code::bad_shape, "a group", "at most 2^31 elements");
  }
  const std::size_t length = row_length(call);
  const std::size_t rows = row_count(call);
  const auto check_stride = [&](std::string_view name, std::ptrdiff_t stride, bool output) -> Status {
    if (stride == 0 || rows <= 1) return {};
    const std::size_t magnitude = stride < 0 ? std::size_t{0} - static_cast<std::size_t>(stride) : static_cast<std::size_t>(stride);
    if (output && magnitude < length) return refuse(Code::bad_stride, name, "at least a row, or 0 for rows without a gap");
    if (!multiplies(magnitude, rows, most)) return refuse(Code::bad_stride, name, "a stride whose rows fit the address space");
    return {};
  };
  for (const auto& [name, stride, output] :
       {std::tuple{"x_stride", call.x_stride, false}, std::tuple{"residual_stride", call.residual_stride, false},
        std::tuple{"y_stride", call.y_stride, true}, std::tuple{"sum_stride", call.sum_stride, true}}) {
    if (Status status = check_stride(name, stride, output); !status.ok()) return status;
  }
  if (call.profile.momentum != Momentum::weight_of_new && call.profile.momentum != Momentum::weight_of_old) {
    return refuse(Code::bad_parameter, "profile", "a momentum of the new or of the old value");
  }
  if (call.profile.running_variance != Estimator::biased && call.profile.running_variance != Estimator::unbiased) {
    return refuse(Code::bad_parameter, "profile", "a running variance that is biased or unbiased");
  }
  const bool empty = rows == 0 || length == 0;
  if (!empty && call.x == nullptr) return refuse(Code::bad_tensor, "x", "a tensor, not null");
  if (!empty && call.y == nullptr) return refuse(Code::bad_tensor, "y", "a tensor, not null");
  if (call.residual != nullptr && !by_rows(call.op))
    return refuse(Code::bad_tensor, "residual", "null: only layer_norm and rms_norm add one");
  if (call.sum != nullptr && call.residual == nullptr) return refuse(Code::bad_tensor, "sum", "null where there is no residual");
  if (call.sum != nullptr && call.sum == call.y) return refuse(Code::bad_tensor, "sum", "another tensor than y");
  if (call.mean != nullptr && (!op.centred || op.given_statistics)) {
    return refuse(Code::bad_tensor, "mean", "null: rms_norm has none, and batch_norm_inference is given it");
  }
  const auto stride_of = [&](std::ptrdiff_t stride) { return stride == 0 ? static_cast<std::ptrdiff_t>(length) : stride; };
  const auto in_place = [&](const void* in, std::ptrdiff_t in_stride, const void* out, std::ptrdiff_t out_stride) {
    return empty || rows == 1 || in == nullptr || in != out || stride_of(in_stride) == stride_of(out_stride);
  };
  if (!in_place(call.x, call.x_stride, call.y, call.y_stride) || !in_place(call.residual, call.residual_stride, call.y, call.y_stride) ||
      !in_place(call.x, call.x_stride, call.sum, call.sum_stride) ||
      !in_place(call.residual, call.residual_stride, call.sum, call.sum_stride)) {
    return refuse(Code::bad_stride, "in place", "the stride of the input");
  }
  for (const auto& [name, given] : {std::pair{"mean_in", call.mean_in != nullptr}, std::pair{"variance_in", call.variance_in != nullptr}}) {
    if (given && !op.given_statistics) return refuse(Code::bad_tensor, name, "null: only batch_norm_inference takes statistics");
    if (!given && op.given_statistics && (!empty || call.rstd != nullptr)) return refuse(Code::bad_tensor, name, "a tensor, not null");
  }
  for (const auto& [name, given] :
       {std::pair{"running_mean", call.running_mean != nullptr}, std::pair{"running_variance", call.running_variance != nullptr}}) {
    if (given && call.op != Op::batch_norm_training) return refuse(Code::bad_tensor, name, "null: only batch_norm_training updates it");
  }
  if (call.running_variance != nullptr && call.profile.running_variance == Estimator::unbiased && group_size(call) == 1) {
    return refuse(Code::bad_shape, "running_variance", "two values per channel or more: an unbiased estimate needs them");
  }
  if (!(call.momentum >= 0 && call.momentum <= 1)) return refuse(Code::bad_momentum, "momentum", "a number from 0 to 1");
  return {};
}

// ---- Tasks ----------------------------------------------------------------------------------------------------------------------------

// Below this many elements a second thread costs more than it saves.
constexpr std::size_t worth_a_thread = 1 << 14;

struct Work {
  const Rule* rule;
  bool (*kernel)(const Rule&, std::size_t, std::size_t, Counters&);
  std::size_t units;  // what the kernel counts
  std::size_t tasks;
  std::atomic<std::uint64_t> double_double{0};
  std::atomic<std::uint64_t> exact{0};
  std::atomic<bool> out_of_memory{false};

  void run(std::size_t task) {
    const FloatingPointEnvironment environment;
    Counters counters;
    if (!kernel(*rule, units * task / tasks, units * (task + 1) / tasks, counters)) out_of_memory = true;
    double_double += counters.double_double;
    exact += counters.exact;
  }
};

// Those of no elements are 0/0, given ones are what they are, and running ones stay.
void give_statistics_of_nothing(const Rule& rule, std::size_t groups) {
  const Call& call = *rule.call;
  for (std::size_t g = 0; g < groups && (call.mean != nullptr || call.rstd != nullptr); ++g) {
    const auto at = static_cast<std::ptrdiff_t>(g);
    Bits rstd = info(call.statistics).quiet_nan();
    if (call.mean != nullptr) write(call.statistics, rstd, call.mean, at);
    if (call.rstd == nullptr) continue;
    if (info(call.op).given_statistics) {
      Counters counters;
      Ladder ladder;
      ladder.begin(rule, read(call.statistics, call.mean_in, at), read(call.statistics, call.variance_in, at), counters);
      rstd = ladder.rstd();
    }
    write(call.statistics, rstd, call.rstd, at);
  }
}

struct Buffer {
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }  // NOLINT(cppcoreguidelines-no-malloc): what std::aligned_alloc made
  };
  std::unique_ptr<std::byte, Free> data;
  std::size_t size = 0;
};
thread_local Buffer buffer;

}  // namespace

std::byte* scratch(std::size_t bytes) {
  if (bytes > buffer.size) {
    constexpr std::size_t alignment = 64;
    const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    buffer.data = nullptr;  // before the next, so that there is never need of both
    buffer.data.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, rounded)));
    buffer.size = buffer.data == nullptr ? 0 : rounded;
  }
  return buffer.data.get();
}

Status normalize(const Call& original) {
  const FloatingPointEnvironment environment;
  if (Status status = validate(original); !status.ok()) return status;
  Call call = original;
  const auto length = static_cast<std::ptrdiff_t>(row_length(call));
  for (std::ptrdiff_t* stride : {&call.x_stride, &call.residual_stride, &call.y_stride, &call.sum_stride}) {
    if (*stride == 0) *stride = length;
  }
  Rule rule;
  rule.call = &call;
  rule.spec.op = call.op;
  rule.spec.profile = call.profile;
  rule.spec.epsilon = call.epsilon;
  rule.spec.momentum = call.momentum;
  if (call.op == Op::group_norm) rule.spec.groups = static_cast<std::int64_t>(call.groups);

  const std::size_t elements = row_count(call) * row_length(call);
  Work work{&rule, rows, call.rows, 1};
  std::size_t groups = call.rows;
  if (!by_rows(call.op)) {
    groups = call.op == Op::group_norm ? call.groups : call.channels;
    const std::size_t sets = info(call.op).grouping == Grouping::channel ? 1 : call.cases;
    // One position to a channel is a matter of columns in either memory.
    const bool by_runs = call.layout == Layout::channels_first && call.positions != 1;
    if (!by_runs && elements != 0) rule.together = groups_of_unit(call);
    work.kernel = by_runs ? runs : columns;
    work.units = (groups + rule.together - 1) / rule.together * sets;
    groups *= sets;
  }
  // More than a share of the last cache, in rows of many whole lines.
  constexpr std::size_t large = std::size_t{8} << 20;
  constexpr std::uintptr_t cache_line = 64;
  const auto bytes = static_cast<std::size_t>(info(call.format).bytes());
  rule.stream = call.y != call.x && row_length(call) * bytes >= 16 * cache_line && elements * bytes >= large &&
                reinterpret_cast<std::uintptr_t>(call.y) % cache_line == 0 &&
                static_cast<std::size_t>(call.y_stride) * bytes % cache_line == 0;

  if (elements == 0) {
    give_statistics_of_nothing(rule, groups);
    return {};
  }
  if (call.executor != nullptr && elements >= worth_a_thread) {
    work.tasks = std::min({work.units, elements / (worth_a_thread / 2), std::clamp<std::size_t>(call.executor->threads(), 1, 1 << 16) * 4});
  }
  if (work.tasks > 1) {
    call.executor->run(
        work.tasks, [](void* context, std::size_t task) { static_cast<Work*>(context)->run(task); }, &work);
  } else {
    work.run(0);
  }
  if (work.out_of_memory)
    return {Code::no_memory, "a buffer: expected memory for a few rows of each thread; some rows have not been normalized"};
  if (call.counters != nullptr) {
    const auto count = [](std::uint64_t& counter, std::uint64_t by) { std::atomic_ref(counter).fetch_add(by, std::memory_order_relaxed); };
    const std::uint64_t below = work.double_double + work.exact;
    if (call.accuracy == Accuracy::correctly_rounded) count(call.counters->vector, elements - below);
    count(call.counters->double_double, work.double_double);
    count(call.counters->exact, work.exact);
  }
  return {};
}

}  // namespace norma::simd
