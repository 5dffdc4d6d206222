// oneDNN 2 on the CPU as a subject: norma check onednn
//
// Two passes in f32, for bf16 too: layer normalization in simple_layer_normalization_kernels.cpp and, in vectors, in
// x64/jit_uni_layer_normalization_kernels.cpp; batch normalization in ncsp_, nspc_ and ref_batch_normalization.cpp and, for channels last,
// in x64/jit_uni_batch_normalization.cpp. The order of the sums depends on all of shape, layout, processor and threads: the depth declared
// is that of a plain loop, which none of them exceeds.
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "norma/subject.h"

#define PROFILE "compute=f32 accumulate=f32 algorithm=two_pass depth=n-1"

namespace {

using dnnl::memory;

// What oneDNN does not do; the text is the reason.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};
void require(bool offered, const char* reason) {
  if (!offered) throw Unsupported(reason);
}

struct Device {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};
Device& device() {
  static Device d;
  return d;
}

memory::data_type type_of(const norma_tensor& t) {
  require(t.format == NORMA_F32 || t.format == NORMA_BF16, "f32 and bf16 alone");
  return t.format == NORMA_F32 ? memory::data_type::f32 : memory::data_type::bf16;
}

// oneDNN takes as many threads as OpenMP says, both when a primitive is made and when it runs; 0: as many as before the first call. Says
// how many, for keys; nothing for a oneDNN without OpenMP.
std::string set_threads(int threads) {
  static const auto most = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  static const auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (most == nullptr || set == nullptr) return "";
  static const int usual = most();
  set(threads == 0 ? usual : threads);
  return std::to_string(threads) + " ";
}

memory::desc vector_of(std::int64_t n) { return {{n}, memory::data_type::f32, memory::format_tag::a}; }

// Axes [begin, end) of a tensor as one, with the stride of the last.
struct Axis {
  std::int64_t extent = 1, stride = 1;
};
Axis merged(const norma_tensor& t, int begin, int end) {
  Axis axis;
  for (int a = end - 1; a >= begin; --a) {
    if (t.shape[a] == 1) continue;
    if (axis.extent == 1) axis.stride = t.strides[a];
    require(t.strides[a] == axis.stride * axis.extent || axis.extent == 0, "axes that are normalized together lie together");
    axis.extent *= t.shape[a];
  }
  return axis;
}

// x and y as oneDNN sees them: rows and columns for layer normalization, cases, channels and positions for batch normalization.
memory::desc layout_of(const norma_call& call, const norma_tensor& t) {
  if (call.op == NORMA_LAYER_NORM) {
    const Axis rows = merged(t, 0, call.axis), columns = merged(t, call.axis, t.rank);
    const std::int64_t apart = rows.extent == 1 ? columns.extent * columns.stride : rows.stride;
    return {{rows.extent, columns.extent}, type_of(t), memory::dims{apart, columns.stride}};
  }
  require(call.axis == 1, "channels are axis 1");
  if (t.rank == 2) return {{t.shape[0], t.shape[1]}, type_of(t), memory::dims{t.strides[0], t.strides[1]}};
  const Axis positions = merged(t, 2, t.rank);
  return {{t.shape[0], t.shape[1], positions.extent, 1},
          type_of(t),
          memory::dims{t.strides[0], t.strides[1], positions.stride, positions.stride}};
}

// Parameters and statistics are f32 there; what is given as bf16 or f16 could be widened exactly, but is not oneDNN's to take.
void require_f32(const norma_tensor* t) { require(t == nullptr || t->format == NORMA_F32, "parameters and statistics are f32"); }

void check(const norma_call& c) {
  require(c.op == NORMA_LAYER_NORM || c.op == NORMA_BATCH_NORM_TRAINING || c.op == NORMA_BATCH_NORM_INFERENCE,
          "layer and batch normalization alone");
  require(c.epsilon_outside == 0, "epsilon is inside the root");
  require(c.variance_unbiased == 0, "y is made with the biased variance");
  require(c.gain_offset == 0, "the gain is gamma, not 1 + gamma");
  require(c.cast_before_gain == 0, "nothing is rounded before the gain");
  require(c.residual == nullptr && c.sum == nullptr, "no residual");
  require(c.running_mean == nullptr && c.running_variance == nullptr, "running statistics are left to the caller");
  require(c.rstd == nullptr, "it gives the variance, not rstd");
  require(c.x->format == c.y->format, "y has the format of x");
  for (const norma_tensor* t : {c.gamma, c.beta, c.given_mean, c.given_variance, c.mean}) require_f32(t);
}

// A primitive with its arguments; their data are set call by call.
struct Prepared {
  dnnl::primitive primitive;
  std::unordered_map<int, memory> arguments;
};

// Describes a call but for its numbers.
std::string key_of(const norma_call& call, const memory::desc& x, const memory::desc& y) {
  std::string key(reinterpret_cast<const char*>(&x.data), sizeof x.data);
  key.append(reinterpret_cast<const char*>(&y.data), sizeof y.data);
  key.append(reinterpret_cast<const char*>(&call.epsilon), sizeof call.epsilon);
  key += static_cast<char>(call.op);
  for (const norma_tensor* t : {call.gamma, call.beta, call.mean}) key += t != nullptr ? '1' : '0';
  return key;
}

Prepared prepare(const norma_call& call, const memory::desc& x, const memory::desc& y) {
  const bool given = call.op == NORMA_BATCH_NORM_INFERENCE;
  const bool training = call.op == NORMA_BATCH_NORM_TRAINING || call.mean != nullptr;
  const auto kind = training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  const auto epsilon = static_cast<float>(call.epsilon);
  auto flags = dnnl::normalization_flags::none;
  if (call.gamma != nullptr) flags |= dnnl::normalization_flags::use_scale;
  if (call.beta != nullptr) flags |= dnnl::normalization_flags::use_shift;
  if (given) flags |= dnnl::normalization_flags::use_global_stats;
  Prepared made;
  const auto add = [&](int name, const memory::desc& desc) { made.arguments.emplace(name, memory(desc, device().engine, nullptr)); };
  // Both ops have these; a primitive that computes statistics writes them in training.
  const auto build = [&](auto forward, std::int64_t parameters, const memory::desc& statistics) {
    using Forward = decltype(forward);
    const typename Forward::primitive_desc pd({kind, x, epsilon, flags}, device().engine);
    require(pd.dst_desc() == y, "y lies as x does");
    made.primitive = Forward(pd);
    if (call.gamma != nullptr) add(DNNL_ARG_SCALE, vector_of(parameters));
    if (call.beta != nullptr) add(DNNL_ARG_SHIFT, vector_of(parameters));
    if (training || given) {
      made.arguments.emplace(DNNL_ARG_MEAN, call.mean != nullptr || given ? memory(statistics, device().engine, nullptr)
                                                                          : memory(statistics, device().engine));
      made.arguments.emplace(DNNL_ARG_VARIANCE, given ? memory(statistics, device().engine, nullptr) : memory(statistics, device().engine));
    }
  };
  if (call.op == NORMA_LAYER_NORM) {
    build(dnnl::layer_normalization_forward(), x.dims()[1], vector_of(x.dims()[0]));
  } else {
    build(dnnl::batch_normalization_forward(), x.dims()[1], vector_of(x.dims()[1]));
  }
  add(DNNL_ARG_SRC, x);
  add(DNNL_ARG_DST, y);
  return made;
}

void run(const norma_call& call) {
  check(call);
  const memory::desc x = layout_of(call, *call.x), y = layout_of(call, *call.y);
  static std::map<std::string, Prepared> cache;
  const std::string key = set_threads(call.threads) + key_of(call, x, y);
  auto found = cache.find(key);
  if (found == cache.end()) {
    if (cache.size() >= 1000) cache.clear();
    found = cache.emplace(key, prepare(call, x, y)).first;
  }
  Prepared& p = found->second;
  const auto set = [&](int name, const norma_tensor* t) {
    if (t != nullptr) p.arguments.at(name).set_data_handle(t->data);
  };
  set(DNNL_ARG_SRC, call.x);
  set(DNNL_ARG_DST, call.y);
  set(DNNL_ARG_SCALE, call.gamma);
  set(DNNL_ARG_SHIFT, call.beta);
  set(DNNL_ARG_MEAN, call.given_mean);
  set(DNNL_ARG_VARIANCE, call.given_variance);
  set(DNNL_ARG_MEAN, call.mean);
  p.primitive.execute(device().stream, p.arguments);
  device().stream.wait();
}

int normalize(const norma_call* call, char* message, size_t room) {
  try {
    run(*call);
    return NORMA_OK;
  } catch (const Unsupported& reason) {
    std::snprintf(message, room, "%s", reason.what());
    return NORMA_UNSUPPORTED;
  } catch (const dnnl::error& error) {
    std::snprintf(message, room, "oneDNN: %s", error.what());
    return error.status == dnnl_unimplemented ? NORMA_UNSUPPORTED : NORMA_ERROR;
  } catch (const std::exception& error) {
    std::snprintf(message, room, "%s", error.what());
    return NORMA_ERROR;
  }
}

}  // namespace

extern "C" const norma_subject* norma_get_subject() {
  static const std::string name = [] {
    const dnnl_version_t* v = dnnl_version();
    return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
  }();
  static const norma_subject subject{NORMA_SUBJECT_VERSION, name.c_str(), set_threads(0).empty() ? PROFILE : "threads " PROFILE, normalize};
  return &subject;
}
