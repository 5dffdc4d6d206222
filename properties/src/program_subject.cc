// Programs as subjects: length-prefixed safetensors on their standard input and output.
//
// A request is 8 bytes, little-endian, that say how many follow, and that many bytes of safetensors: inputs by role; in the metadata what
// the call is: op, dtype (of y), epsilon (a hexadecimal float), axis (not negative), groups, momentum, want (outputs by role, separated by
// commas), and with the value 1 what of the profile is not as usual: epsilon_outside, unbiased, running_biased, momentum_of_old,
// gain_offset, cast_before_gain. A reply has the same frame: outputs by role, or in the metadata status (unsupported or error) and message.
// The first request has no tensors and op=hello; its reply says name and profile (norma/subject.h) in the metadata, or why it cannot be
// run.
#include "norma/text.h"
#include "placed.h"
#include "talk.h"

namespace norma::properties {
namespace {

// Whether where tensors lie makes the case another one. To a program, they lie nowhere.
bool placement_matters(const Case& c) {
  Placement p = c.placement;
  if (info(c.spec.op).grouping == Grouping::trailing || c.x().shape.size() < 3) p.channels_last = false;
  p.threads = 0;
  return !(p == Placement());
}

class Program final : public Subject {
 public:
  Program(std::string command, const Limits& limits) : command_(std::move(command)), limits_(limits), name_(command_) {}

  Status begin() {
    TensorFile reply;
    const Reply r = launch(reply);
    if (r.kind != Reply::Kind::ok) return {Code::io_error, printable(command_) + ": " + r.what};
    if (const auto it = reply.metadata.find("name"); it != reply.metadata.end()) name_ = excerpt(it->second);
    const auto profile = reply.metadata.find("profile");
    Result<Arithmetic> arithmetic = parse_arithmetic(profile == reply.metadata.end() ? "" : profile->second);
    if (!arithmetic.ok()) return {Code::io_error, printable(command_) + ": " + arithmetic.status().message};
    arithmetic_ = *arithmetic;
    return {};
  }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const Arithmetic& arithmetic() const override { return arithmetic_; }

  void restart() override { talk_.end(); }
  Reply run(const Case& c) override {
    if (c.spec.profile.residual_sum == ResidualSum::exact) return {Reply::Kind::unsupported, "no word for an exact x + residual", {}};
    if (placement_matters(c)) return {Reply::Kind::unsupported, "where tensors lie does not reach a program", {}};
    Result<ByRole<Tensor>> outputs = empty_outputs(c);
    if (!outputs.ok()) return {Reply::Kind::unsupported, outputs.status().message, {}};
    TensorFile reply;
    // Twice, for the machine may have been busy.
    if (!talk_.running() && launch(reply).kind != Reply::Kind::ok) {
      if (Reply r = launch(reply); r.kind != Reply::Kind::ok) return {Reply::Kind::lost, r.what, {}};
    }
    std::size_t most = beside;
    for (std::size_t r = 0; r < role_count; ++r) {
      if (const auto& t = (*outputs)[static_cast<Role>(r)]) most += 2 * t->data.size();  // of f64 where f32 is expected, say
    }
    if (Reply r = exchange(request_of(c), most, {limits_.time}, reply); r.kind != Reply::Kind::ok) return r;
    if (Reply r = status_of(reply); r.kind != Reply::Kind::ok) return r;
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      if (!(*outputs)[role]) continue;
      Tensor& want = *(*outputs)[role];
      const Result<const Tensor*> found = reply.get(name_of(role));
      if (!found.ok()) return {Reply::Kind::misbehaved, "its answer: " + found.status().message, {}};
      const Tensor* got = *found;
      if (got->format != want.format || got->shape != want.shape) {
        return {Reply::Kind::misbehaved,
                name_of(role) + " is " + std::string(info(got->format).name) + to_text(got->shape) + ", expected " +
                    std::string(info(want.format).name) + to_text(want.shape),
                {}};
      }
      want.data = got->data;
    }
    return {Reply::Kind::ok, "", std::move(*outputs)};
  }

 private:
  // What a reply says of itself.
  static Reply status_of(const TensorFile& reply) {
    const auto status = reply.metadata.find("status");
    if (status == reply.metadata.end() || status->second == "ok") return {};
    const auto it = reply.metadata.find("message");
    const std::string message = it == reply.metadata.end() ? "" : excerpt(it->second);
    if (status->second == "unsupported") return {Reply::Kind::unsupported, message, {}};
    if (status->second == "error") return {Reply::Kind::refused, message, {}};
    return {Reply::Kind::misbehaved, "its status is " + quote(status->second) + ", expected ok, unsupported or error", {}};
  }

  static std::string name_of(Role role) { return std::string(norma::name(role)); }

  static TensorFile request_of(const Case& c) {
    TensorFile f;
    for (std::size_t r = 0; r < role_count; ++r) {
      if (c.inputs[static_cast<Role>(r)]) f.tensors.push_back(*c.inputs[static_cast<Role>(r)]);
    }
    f.metadata["op"] = info(c.spec.op).name;
    f.metadata["dtype"] = info(c.format).name;
    f.metadata["epsilon"] = to_hex(c.spec.effective_epsilon());
    f.metadata["axis"] = std::to_string(axis_of(c.spec, c.x().shape.size()));
    f.metadata["groups"] = std::to_string(c.spec.groups.value_or(1));
    f.metadata["momentum"] = to_hex(c.spec.momentum);
    const Profile& p = c.spec.profile;
    if (p.epsilon_placement == EpsilonPlacement::outside) f.metadata["epsilon_outside"] = "1";
    if (p.variance == Estimator::unbiased) f.metadata["unbiased"] = "1";
    if (p.running_variance == Estimator::biased) f.metadata["running_biased"] = "1";
    if (p.momentum == Momentum::weight_of_old) f.metadata["momentum_of_old"] = "1";
    if (p.gain_offset) f.metadata["gain_offset"] = "1";
    if (p.cast_before_gain) f.metadata["cast_before_gain"] = "1";
    if (c.placement.threads != 0) f.metadata["threads"] = std::to_string(c.placement.threads);
    std::string& want = f.metadata["want"];
    for (std::size_t r = 0; r < role_count; ++r) {
      if (c.outputs.contain(static_cast<Role>(r))) want += (want.empty() ? "" : ",") + std::string(role_names[r]);
    }
    return f;
  }

  // Starts it and says hello.
  Reply launch(TensorFile& reply) {
    if (Status status = talk_.start(command_, limits_.memory); !status.ok()) return {Reply::Kind::crashed, status.message, {}};
    TensorFile hello;
    hello.metadata["op"] = "hello";
    Reply r = exchange(hello, beside, {limits_.launch, limits_.idle}, reply);
    if (r.kind == Reply::Kind::ok) r = status_of(reply);
    if (r.kind == Reply::Kind::unsupported || r.kind == Reply::Kind::refused) r.what = "it does not say hello: " + r.what;
    return r;
  }

  Reply exchange(const TensorFile& request, std::size_t most, const Talk::Patience& patience, TensorFile& reply) {
    const Result<Bytes> message = serialize_safetensors(request);
    if (!message.ok()) return {Reply::Kind::unsupported, message.status().message, {}};
    Bytes answer;
    std::string what;
    switch (talk_.exchange(*message, most, patience, answer, what)) {
      case Talk::Heard::crash:
        return {Reply::Kind::crashed, what, {}};
      case Talk::Heard::silence:
        return {Reply::Kind::hung, what, {}};
      case Talk::Heard::nonsense:
        return {Reply::Kind::misbehaved, what, {}};
      case Talk::Heard::answer:
        break;
    }
    Result<TensorFile> parsed = parse_safetensors(answer);
    if (!parsed.ok()) return {Reply::Kind::misbehaved, "its answer: " + parsed.status().message, {}};
    reply = std::move(*parsed);
    return {};
  }

  static constexpr std::size_t beside = std::size_t{1} << 20;  // bytes of a reply beside the tensors

  std::string command_;
  Limits limits_;
  std::string name_;
  Arithmetic arithmetic_;
  Talk talk_;
};

}  // namespace

Result<std::unique_ptr<Subject>> start_program(const std::string& command, const Limits& limits) {
  auto program = std::make_unique<Program>(command, limits);
  if (Status status = program->begin(); !status.ok()) return status;
  return std::unique_ptr<Subject>(std::move(program));
}

}  // namespace norma::properties
