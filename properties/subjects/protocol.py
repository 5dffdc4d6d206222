# Norma's side of a subject in Python: a request is 8 bytes, little-endian, that say how many follow, and that many bytes of safetensors.
# properties/src/program_subject.cc says what is in them.
import json, struct, sys

SIZES = {"F16": 2, "BF16": 2, "F32": 4, "F64": 8}


class Unsupported(Exception):
    """What a library does not do; the text is the reason."""


def serve(name, profile, normalize):
    """Answers requests until there are no more.

    normalize(call, tensors) gets the metadata, with numbers as numbers and `want` as a set, and tensors by role as (dtype, shape, bytes);
    it returns the outputs in the same form.
    """
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    while size := stdin.read(8):
        body = stdin.read(struct.unpack("<Q", size)[0])
        start = 8 + struct.unpack("<Q", body[:8])[0]
        header = json.loads(body[8:start])
        call = header.pop("__metadata__", {})
        if call["op"] == "hello":
            reply, outputs = {"name": name, "profile": profile}, {}
        else:
            try:
                reply, outputs = {}, normalize(numbers(call), {role: tensor(t, body, start) for role, t in header.items()})
            except Unsupported as reason:
                reply, outputs = {"status": "unsupported", "message": str(reason)}, {}
            except Exception as error:
                reply, outputs = {"status": "error", "message": f"{type(error).__name__}: {error}".split("\n")[0]}, {}
        header, data = {"__metadata__": reply}, b""
        for role, (dtype, shape, content) in outputs.items():
            header[role] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(content)]}
            data += content
        text = json.dumps(header).encode()
        stdout.write(struct.pack("<QQ", 8 + len(text) + len(data), len(text)) + text + data)
        stdout.flush()


def numbers(call):
    call.update(epsilon=float.fromhex(call["epsilon"]), momentum=float.fromhex(call["momentum"]))
    call.update(threads=int(call.get("threads", 0)), axis=int(call["axis"]), groups=int(call["groups"]), want=set(call["want"].split(",")))
    return call


def tensor(t, body, start):
    begin, end = t["data_offsets"]
    return t["dtype"], t["shape"], bytearray(body[start + begin : start + end])


def refuse(call, *words):
    """What of the profile is asked for and not on offer."""
    reasons = {
        "epsilon_outside": "epsilon is inside the root",
        "unbiased": "y is made with the biased variance",
        "gain_offset": "the gain is gamma, not 1 + gamma",
        "cast_before_gain": "nothing is rounded before the gain",
        "running_biased": "the running variance takes the unbiased variance",
        "momentum_of_old": "momentum is the weight of the new",
    }
    for word in words or ("epsilon_outside", "unbiased", "gain_offset", "cast_before_gain"):
        if word in call:
            raise Unsupported(reasons[word])
