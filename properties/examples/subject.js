// layer_norm and rms_norm of float32, every step rounded, as a subject for Node 14 or later; no packages:
//     norma check 'exec:node properties/examples/subject.js'
const fs = require("fs"), f = Math.fround;

function take(size) {
  const bytes = Buffer.alloc(size);
  for (let at = 0, n; at < size; at += n) if ((n = fs.readSync(0, bytes, at, size - at)) === 0) process.exit();
  return bytes;
}
function send(metadata, shape, y = new Float32Array(0)) {
  const header = { __metadata__: metadata };
  if (shape) header.y = { dtype: "F32", shape, data_offsets: [0, y.byteLength] };
  const text = Buffer.from(JSON.stringify(header)), sizes = Buffer.alloc(16);
  sizes.writeBigUInt64LE(BigInt(8 + text.length + y.byteLength), 0), sizes.writeBigUInt64LE(BigInt(text.length), 8);
  const all = Buffer.concat([sizes, text, Buffer.from(y.buffer)]);
  for (let at = 0; at < all.length;) at += fs.writeSync(1, all, at);
}
const number = (hex, [, whole, part, exponent] = /^0x(\w)\.?(\w*)p(.+)$/.exec(hex)) =>
  parseInt(whole + part, 16) * 2 ** (exponent - 4 * part.length);
const known = ["op", "dtype", "epsilon", "axis", "groups", "momentum", "want"];

for (;;) {
  const body = take(Number(take(8).readBigUInt64LE())), end = 8 + Number(body.readBigUInt64LE());
  const { __metadata__: call, ...tensors } = JSON.parse(body.toString("utf8", 8, end));
  const floats = (t) => t && new Float32Array(body.buffer.slice(...t.data_offsets.map((at) => body.byteOffset + end + at)));
  const does = ["layer_norm", "rms_norm"].includes(call.op) && call.dtype == "f32" && call.want == "y" && !tensors.residual &&
    Object.keys(call).every((word) => known.includes(word)) && Object.values(tensors).every((t) => t.dtype == "F32");
  if (call.op == "hello") { send({ name: "example for Node", profile: "algorithm=two_pass depth=n-1" }); continue; }
  if (!does) { send({ status: "unsupported", message: "only layer_norm and rms_norm of float32" }); continue; }
  const x = floats(tensors.x), gamma = floats(tensors.gamma), beta = floats(tensors.beta), y = new Float32Array(x.length);
  const n = tensors.x.shape.slice(Number(call.axis)).reduce((a, b) => a * b, 1), epsilon = f(number(call.epsilon));
  for (let row = 0; row < x.length; row += n) {
    const sum = (of) => { let s = 0; for (let i = row; i < row + n; ++i) s = f(s + of(x[i])); return f(s / n); };
    const mean = call.op == "layer_norm" ? sum((v) => v) : 0, variance = sum((v) => f(f(v - mean) * f(v - mean)));
    const rstd = f(1 / f(Math.sqrt(f(variance + epsilon))));
    for (let i = 0; i < n; ++i) y[row + i] = f(f(f(f(x[row + i] - mean) * rstd) * (gamma ? gamma[i] : 1)) + (beta ? beta[i] : -0));
  }
  send({}, tensors.x.shape, y);
}
