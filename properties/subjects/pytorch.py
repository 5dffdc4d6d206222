# PyTorch on the CPU as a subject: norma check pytorch
#
# layer_norm, group_norm (aten/src/ATen/native/cpu/layer_norm_kernel.cpp, group_norm_kernel.cpp of 1.13) take mean and variance from
# RowwiseMoments (moments_utils.h): Welford's update in vectors, joined in chunks of 16 and then in pairs, all in the format of x, bfloat16
# included; instance_norm and batch_norm (Normalization.cpp) take two passes with wider sums. All then fold what they have into one
# multiplication and one addition, x*rstd + (-mean*rstd). Declared is what allows the largest error of these, with the depth of a plain
# loop: short rows have a scalar tail and a join of the lanes, so n/8 would not be true of them.
import math
import re

import torch
import torch.nn.functional as F

import protocol
from protocol import Unsupported

FORMATS = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64}
DTYPES = {"f16": "F16", "bf16": "BF16", "f32": "F32", "f64": "F64"}
PROFILE = "threads compute=x algorithm=welford depth=n-1 batch_norm_training:algorithm=two_pass instance_norm:algorithm=two_pass"
THREADS = torch.get_num_threads()
NAMES = {torch_type: name for name, torch_type in FORMATS.items()}
# PyTorch's words for what it does not do by design.
REFUSALS = ("not implemented for", "expected scalar type", "expect parameter to have scalar type", "mixed dtype", "Expected more than 1")


def to_torch(t):
    dtype, shape, content = t
    return (torch.frombuffer(content, dtype=FORMATS[dtype]) if content else torch.empty(0, dtype=FORMATS[dtype])).reshape(shape)


def to_bytes(t, dtype):
    t = t.detach().contiguous()
    content = t.flatten().view(torch.uint8).numpy().tobytes() if t.numel() else b""  # numpy has no bfloat16
    return dtype, list(t.shape), content


def normalize(call, tensors):
    protocol.refuse(call)
    if "residual" in tensors:
        raise Unsupported("no residual: add it first")
    if call["op"] == "rms_norm" and not hasattr(F, "rms_norm"):
        raise Unsupported(f"PyTorch {torch.__version__} has no rms_norm")
    if DTYPES[call["dtype"]] != tensors["x"][0]:
        raise Unsupported("y has the format of x")
    t = {role: to_torch(tensor) for role, tensor in tensors.items()}
    torch.set_num_threads(call["threads"] or THREADS)
    try:
        outputs = OPS[call["op"]](call, t["x"], t.get("gamma"), t.get("beta"), t)
    except (RuntimeError, ValueError) as error:
        if any(words in str(error) for words in REFUSALS):
            raise Unsupported(re.split(r"\n|, got", str(error))[0]) from None
        raise
    # A statistic of less than f32 is widened to what is asked for, which changes no value.
    statistics = "F64" if t["x"].dtype == torch.float64 else "F32"
    reply = {}
    for role in call["want"]:
        value = outputs[role]
        if role in ("mean", "rstd"):
            value = value.to(FORMATS[statistics])
        reply[role] = to_bytes(value, NAMES[value.dtype])
    return reply


def layer_norm(call, x, gamma, beta, t):
    y, mean, rstd = torch.native_layer_norm(x, x.shape[call["axis"] :], gamma, beta, call["epsilon"])
    leading = x.shape[: call["axis"]]
    return {"y": y, "mean": mean.reshape(leading), "rstd": rstd.reshape(leading)}


def rms_norm(call, x, gamma, beta, t):
    if beta is not None or call["want"] != {"y"}:
        raise Unsupported("rms_norm has a gain and y alone")
    return {"y": F.rms_norm(x, x.shape[call["axis"] :], gamma, call["epsilon"])}


def batch_norm_training(call, x, gamma, beta, t):
    running = t.get("running_mean"), t.get("running_variance")
    if running[0] is not None:
        protocol.refuse(call, "running_biased", "momentum_of_old")
    outputs = {"running_mean": running[0], "running_variance": running[1]}
    if call["want"].isdisjoint({"mean", "rstd"}):
        outputs["y"] = F.batch_norm(x, *running, gamma, beta, True, call["momentum"], call["epsilon"])
        return outputs
    # What F.batch_norm calls, after it has looked at the size.
    if x.numel() == x.shape[1]:
        raise Unsupported("Expected more than 1 value per channel when training")
    outputs["y"], outputs["mean"], outputs["rstd"] = torch.native_batch_norm(
        x, gamma, beta, *running, True, call["momentum"], call["epsilon"]
    )
    return outputs


def batch_norm_inference(call, x, gamma, beta, t):
    if call["want"] != {"y"}:
        raise Unsupported("inference gives y alone")
    return {"y": F.batch_norm(x, t["mean"], t["variance"], gamma, beta, False, 0.0, call["epsilon"])}


def group_norm(call, x, gamma, beta, t):
    cases, channels, *positions = x.shape
    positions = math.prod(positions)
    y, mean, rstd = torch.native_group_norm(x, gamma, beta, cases, channels, positions, call["groups"], call["epsilon"])
    return {"y": y, "mean": mean.reshape(cases, call["groups"]), "rstd": rstd.reshape(cases, call["groups"])}


def instance_norm(call, x, gamma, beta, t):
    if call["want"] != {"y"}:
        raise Unsupported("instance_norm gives y alone")
    return {"y": F.instance_norm(x, None, None, gamma, beta, True, 0.0, call["epsilon"])}


OPS = {f.__name__: f for f in (layer_norm, rms_norm, batch_norm_training, batch_norm_inference, group_norm, instance_norm)}

if __name__ == "__main__":
    protocol.serve(f"PyTorch {torch.__version__}", PROFILE, normalize)
