#include "onednn.h"

#if NORMA_ONEDNN
#include <dlfcn.h>

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "norma/format.h"
#endif

namespace norma::program {

#if !NORMA_ONEDNN

std::string onednn_version() { return ""; }
std::unique_ptr<Prepared> prepare_onednn(const simd::Call& /*call*/, std::size_t /*threads*/) { return nullptr; }

#else

namespace {

using dnnl::memory;

// oneDNN takes as many threads as OpenMP says, both when a primitive is made and when it runs. Debian's is built with GCC's OpenMP, which
// is in the process with it; null for a oneDNN without OpenMP.
bool set_threads(std::size_t threads) {
  static const auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  static std::size_t current = 0;
  if (set == nullptr) return false;
  if (threads != current) set(static_cast<int>(threads));
  current = threads;
  return true;
}

struct Device {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};
Device& device() {
  static Device d;
  return d;
}

std::optional<memory::data_type> data_type(Format format) {
  switch (format) {
    case Format::f32:
      return memory::data_type::f32;
    case Format::bf16:
      return memory::data_type::bf16;
    case Format::f16:
      return memory::data_type::f16;
    default:
      return std::nullopt;
  }
}

class Primitive final : public Prepared {
 public:
  Primitive(std::size_t threads, dnnl::primitive primitive) : threads_(threads), primitive_(std::move(primitive)) {}

  // A tensor where it is, or one in memory of oneDNN's own, aligned as it likes it.
  void add(int name, const memory::desc& desc, const void* data) { keep(name, memory(desc, device().engine, const_cast<void*>(data))); }
  float* add(int name, const memory::desc& desc) {
    return static_cast<float*>(keep(name, memory(desc, device().engine)).get_data_handle());
  }

  // The C interface, since that of C++ builds its list of arguments anew. On a CPU the stream has nothing to wait for.
  void run() override {
    set_threads(threads_);
    dnnl_primitive_execute(primitive_.get(), device().stream.get(), static_cast<int>(arguments_.size()), arguments_.data());
  }

 private:
  const memory& keep(int name, memory tensor) {
    memories_.push_back(std::move(tensor));
    arguments_.push_back({name, memories_.back().get()});
    return memories_.back();
  }

  std::size_t threads_;
  dnnl::primitive primitive_;
  std::vector<memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

memory::desc plain(const memory::dims& dims) {
  return {dims, memory::data_type::f32, dims.size() == 1 ? memory::format_tag::a : memory::format_tag::ab};
}

std::unique_ptr<Prepared> prepare(const simd::Call& call, std::size_t threads) {
  const std::optional<memory::data_type> type = data_type(call.format);
  if (!type || call.params != Format::f32 || call.statistics != Format::f32 || !set_threads(threads)) return nullptr;
  const auto dim = [](std::size_t n) { return static_cast<memory::dim>(n); };
  const bool given = call.op == Op::batch_norm_inference;
  const bool training = call.op == Op::batch_norm_training;
  const auto kind = training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  auto flags = dnnl::normalization_flags::use_scale_shift;
  if (given) flags |= dnnl::normalization_flags::use_global_stats;
  const auto epsilon = static_cast<float>(call.epsilon);
  std::unique_ptr<Primitive> made;
  memory::desc data;
  std::size_t count = 0;
  if (call.op == Op::layer_norm) {
    count = call.cols;
    data = {{dim(call.rows), dim(call.cols)}, *type, memory::format_tag::ab};
    using Layer = dnnl::layer_normalization_forward;
    made = std::make_unique<Primitive>(threads, Layer({{kind, data, epsilon, flags}, device().engine}));
  } else if (given || training) {
    count = call.channels;
    const auto layout = call.layout == simd::Layout::channels_last ? memory::format_tag::nhwc : memory::format_tag::nchw;
    data = {{dim(call.cases), dim(call.channels), dim(call.positions), 1}, *type, layout};
    using Batch = dnnl::batch_normalization_forward;
    made = std::make_unique<Primitive>(threads, Batch({{kind, data, epsilon, flags}, device().engine}));
  } else {
    return nullptr;
  }
  made->add(DNNL_ARG_SRC, data, call.x);
  made->add(DNNL_ARG_DST, data, call.y);
  // gamma, then beta: oneDNN has them in one tensor.
  float* scale = made->add(DNNL_ARG_SCALE_SHIFT, plain({2, dim(count)}));
  std::copy_n(static_cast<const float*>(call.gamma), count, scale);
  std::copy_n(static_cast<const float*>(call.beta), count, scale + count);
  if (given) {
    made->add(DNNL_ARG_MEAN, plain({dim(count)}), call.mean_in);
    made->add(DNNL_ARG_VARIANCE, plain({dim(count)}), call.variance_in);
  }
  if (training) {
    made->add(DNNL_ARG_MEAN, plain({dim(count)}));
    made->add(DNNL_ARG_VARIANCE, plain({dim(count)}));
  }
  return made;
}

}  // namespace

std::string onednn_version() {
  const dnnl_version_t* v = dnnl_version();
  return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

std::unique_ptr<Prepared> prepare_onednn(const simd::Call& call, std::size_t threads) {
  try {
    return prepare(call, threads);
  } catch (const dnnl::error&) {  // its way to say that it has no such thing
    return nullptr;
  }
}

#endif

}  // namespace norma::program
