# layer_norm of float32 with numpy, as a subject:
#     norma check 'exec:python3 properties/examples/subject.py'
import json, struct, sys
import numpy as np


def read(stream):
    size = struct.unpack("<Q", stream.read(8) or sys.exit())[0]
    body = stream.read(size)
    end = 8 + struct.unpack("<Q", body[:8])[0]
    header = json.loads(body[8:end])
    call = header.pop("__metadata__", {})
    part = lambda t: body[end + t["data_offsets"][0] : end + t["data_offsets"][1]]
    return call, {k: np.frombuffer(part(t), "<f4").reshape(t["shape"]) for k, t in header.items() if t["dtype"] == "F32"}, header


def write(stream, metadata, **tensors):
    header, data = {"__metadata__": metadata}, b""
    for name, t in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [len(data), len(data) + t.nbytes]}
        data += t.tobytes()
    text = json.dumps(header).encode()
    stream.write(struct.pack("<QQ", 8 + len(text) + len(data), len(text)) + text + data)
    stream.flush()


odd = {"epsilon_outside", "unbiased", "gain_offset", "cast_before_gain"}
while True:
    call, t, header = read(sys.stdin.buffer)
    if call["op"] == "hello":
        write(sys.stdout.buffer, {"name": "numpy", "profile": "algorithm=two_pass depth=n-1"})
    elif call["op"] != "layer_norm" or call["want"] != "y" or len(t) != len(header) or call["dtype"] != "f32" or odd & call.keys():
        write(sys.stdout.buffer, {"status": "unsupported", "message": "only layer_norm of float32"})
    else:
        x, axes = t["x"], tuple(range(int(call["axis"]), t["x"].ndim))
        d = x - x.mean(axes, keepdims=True)
        with np.errstate(all="ignore"):
            y = d / np.sqrt((d * d).mean(axes, keepdims=True) + np.float32(float.fromhex(call["epsilon"])))
            write(sys.stdout.buffer, {}, y=np.ascontiguousarray(y * t.get("gamma", np.float32(1)) + t.get("beta", np.float32(0)), "<f4"))
