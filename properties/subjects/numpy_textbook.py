# What people write with numpy, in the format of x, as a subject: norma check numpy
#
# np.mean and np.var take sums in pairs where elements lie side by side and in a plain loop where they do not; every operation is rounded to
# the format of x, the inside of a float16 sum aside. (Not named numpy.py, which `import numpy` would find first.)
import numpy as np

import protocol
from protocol import Unsupported

FORMATS = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}


def normalize(call, tensors):
    protocol.refuse(call)
    formats = {dtype for dtype, _, _ in tensors.values()} | {call["dtype"].upper()}
    if "BF16" in formats:
        raise Unsupported("numpy has no bfloat16")
    if len(formats) != 1:
        raise Unsupported("one format for all")
    (dtype,) = formats
    t = {role: np.frombuffer(content, FORMATS[dtype]).reshape(shape) for role, (_, shape, content) in tensors.items()}
    with np.errstate(all="ignore"):
        outputs = textbook(call, t["x"], t)
    reply = {}
    for role in call["want"]:
        # A statistic of a float16 is widened to what is asked for, which changes no value.
        to = "F32" if role in ("mean", "rstd") and dtype == "F16" else dtype
        value = np.ascontiguousarray(outputs[role], FORMATS[to])
        reply[role] = to, value.shape, value.tobytes()
    return reply


def textbook(call, x, t):
    op, axis = call["op"], call["axis"]
    outputs = {}
    if "residual" in t:
        x = outputs["sum"] = x + t["residual"]
    shape, positions = x.shape, tuple(range(axis + 1, x.ndim))
    epsilon = x.dtype.type(call["epsilon"])
    if op in ("layer_norm", "rms_norm"):
        axes = tuple(range(axis, x.ndim))
    elif op.startswith("batch_norm"):
        axes = (*range(axis), *positions)
    else:
        groups = call["groups"] if op == "group_norm" else shape[1]
        x = x.reshape(shape[0], groups, -1) if x.size else x.reshape(shape[0], groups, 1)
        axes = (2,)
    per_channel = (lambda p: p.reshape(-1, *[1] * len(positions))) if op not in ("layer_norm", "rms_norm") else (lambda p: p)

    if op == "batch_norm_inference":
        mean, variance = per_channel(t["mean"]), per_channel(t["variance"])
    elif op == "rms_norm":
        mean, variance = x.dtype.type(0), (x * x).mean(axes, keepdims=True)
    else:
        mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    y = (x - mean) / np.sqrt(variance + epsilon)
    y = y.reshape(shape)
    y = y * per_channel(t["gamma"]) if "gamma" in t else y
    y = y + per_channel(t["beta"]) if "beta" in t else y
    outputs["y"] = y

    leading = {"layer_norm": shape[:axis], "rms_norm": shape[:axis], "group_norm": x.shape[:2], "instance_norm": x.shape[:2]}.get(op, (-1,))
    if "mean" in call["want"]:
        outputs["mean"] = mean.reshape(leading)
    if "rstd" in call["want"]:
        outputs["rstd"] = (1 / np.sqrt(variance + epsilon)).reshape(leading)
    if "running_mean" in call["want"]:
        n = x.size // shape[axis]
        new = variance if "running_biased" in call else variance * x.dtype.type(n / (n - 1) if n > 1 else np.nan)
        weight = x.dtype.type(1 - call["momentum"] if "momentum_of_old" in call else call["momentum"])
        for role, value in (("running_mean", mean), ("running_variance", new)):
            outputs[role] = (1 - weight) * t[role] + weight * value.reshape(-1)
    return outputs


if __name__ == "__main__":
    protocol.serve(f"numpy {np.__version__}", "compute=x algorithm=two_pass depth=n-1", normalize)
