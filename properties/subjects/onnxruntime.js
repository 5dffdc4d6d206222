// ONNX Runtime on the CPU as a subject: norma check onnxruntime
//
// LayerNormalization (onnxruntime/core/providers/cpu/nn/layer_norm_impl.cc) is Welford's update in 1.30: rows of up to 7 elements agree with a
// plain loop of it to the bit. Longer rows go to a vector kernel of two passes with a wider mean (microsoft/onnxruntime#31973), which errs
// less, so that Welford's bound covers both. SimplifiedLayerNormalization sums squares. BatchNormalization (batch_norm.h) and
// InstanceNormalization (instance_norm.cc) take two passes and then fold mean and bias into one constant, x*scale + (bias - mean*scale).
'use strict';

const ort = require('onnxruntime-node');
const {modelOf, float, int} = require('./onnx.js');

const PROFILE = 'threads algorithm=two_pass depth=n-1 layer_norm:algorithm=welford';
const TYPES = {F16: 'float16', F32: 'float32', F64: 'float64'};
const ARRAYS = {F16: Uint16Array, F32: Float32Array, F64: Float64Array};
const ONE = {F16: 0x3c00, F32: 1, F64: 1};
const MOST_SESSIONS = 256;

class Unsupported extends Error {}

// What of the profile ONNX's definitions do not have.
const REFUSED = {
  epsilon_outside: 'epsilon is inside the root',
  unbiased: 'y is made with the biased variance',
  gain_offset: 'the gain is gamma, not 1 + gamma',
  cast_before_gain: 'nothing is rounded before the gain',
};

// For each op: its node, its inputs in order (what stands in for an absent one: a gain of ones and a bias of zeros are required inputs in
// ONNX, and change nothing; null: it may be left out), its outputs in order.
const OPS = {
  layer_norm: {
    op: 'LayerNormalization',
    opset: 17,
    attributes: (call) => ({axis: int(call.axis), epsilon: float(call.epsilon)}),
    inputs: {x: null, gamma: 1, beta: null},
    outputs: ['y', 'mean', 'rstd'],
  },
  rms_norm: {
    op: 'SimplifiedLayerNormalization',
    opset: 17,
    attributes: (call) => ({axis: int(call.axis), epsilon: float(call.epsilon)}),
    inputs: {x: null, gamma: 1},
    outputs: ['y', 'rstd'],
  },
  batch_norm_training: {
    op: 'BatchNormalization',
    opset: 15,
    attributes: (call) => ({epsilon: float(call.epsilon), momentum: float(call.momentum), training_mode: int(1)}),
    inputs: {x: null, gamma: 1, beta: 0, running_mean: 0, running_variance: 1},
    outputs: ['y', 'running_mean', 'running_variance'],
    all: true, // it has no kernel for fewer
  },
  batch_norm_inference: {
    op: 'BatchNormalization',
    opset: 15,
    attributes: (call) => ({epsilon: float(call.epsilon)}),
    inputs: {x: null, gamma: 1, beta: 0, mean: 0, variance: 1},
    outputs: ['y'],
  },
  instance_norm: {
    op: 'InstanceNormalization',
    opset: 6,
    attributes: (call) => ({epsilon: float(call.epsilon)}),
    inputs: {x: null, gamma: 1, beta: 0},
    outputs: ['y'],
  },
};

const sessions = new Map();

async function sessionFor(model, threads) {
  const key = `${threads} ${model.toString('latin1')}`;
  if (!sessions.has(key)) {
    if (sessions.size >= MOST_SESSIONS) {
      for (const old of sessions.values()) await old.release();
      sessions.clear();
    }
    try {
      sessions.set(key, await ort.InferenceSession.create(model, {logSeverityLevel: 4, intraOpNumThreads: threads}));
    } catch (error) {
      if (/NOT_IMPLEMENTED|Could not find an implementation|INVALID_GRAPH|Type Error/.test(error.message)) {
        throw new Unsupported(error.message.split('\n')[0]);
      }
      throw error;
    }
  }
  return sessions.get(key);
}

function check(call, tensors, kind) {
  for (const word of Object.keys(REFUSED)) {
    if (call[word] !== undefined) throw new Unsupported(REFUSED[word]);
  }
  if (kind === undefined) throw new Unsupported(`this subject has no ${call.op}`);
  for (const [role, tensor] of Object.entries(tensors)) {
    if (!(role in kind.inputs)) throw new Unsupported(`${kind.op} has no ${role}`);
    if (!(tensor.dtype in TYPES)) throw new Unsupported(`no tensors of ${tensor.dtype} in JavaScript`);
    if (tensor.dtype !== tensors.x.dtype) throw new Unsupported('one type for all tensors');
  }
  if (call.dtype.toUpperCase() !== tensors.x.dtype) throw new Unsupported('y has the type of x');
  for (const role of call.want) {
    if (!kind.outputs.includes(role)) throw new Unsupported(`${kind.op} has no ${role}`);
    if (role === 'mean' || role === 'rstd') {
      if (tensors.x.dtype === 'F64') throw new Unsupported('the statistics of float64 come as float32');
    }
    if (role.startsWith('running') && !(call.running_biased && call.momentum_of_old)) {
      throw new Unsupported('running statistics take the biased variance, and momentum is the weight of the old');
    }
  }
  if (tensors.x.dtype === 'F64' && Math.fround(call.epsilon) !== call.epsilon) throw new Unsupported('epsilon is a float32');
  if (tensors.running_mean?.dtype === 'F64' && Math.fround(call.momentum) !== call.momentum) throw new Unsupported('momentum is a float32');
  if (call.op === 'instance_norm' && tensors.x.shape.length < 3) throw new Unsupported('at least three axes');
  if (call.op !== 'layer_norm' && call.op !== 'rms_norm' && call.axis !== 1) throw new Unsupported('channels are axis 1');
}

async function normalize(call, tensors) {
  const kind = OPS[call.op];
  check(call, tensors, kind);
  const {dtype, shape} = tensors.x;
  const type = TYPES[dtype];
  const parameters = kind === OPS.layer_norm || kind === OPS.rms_norm ? shape.slice(call.axis) : [shape[1]];
  const feeds = {}, inputs = [];
  for (const [role, standIn] of Object.entries(kind.inputs)) {
    if (role in tensors) {
      const {bytes, shape: own} = tensors[role];
      feeds[role] = new ort.Tensor(type, new ARRAYS[dtype](bytes.buffer, bytes.byteOffset, bytes.length / ARRAYS[dtype].BYTES_PER_ELEMENT), own);
    } else if (standIn !== null) {
      const count = parameters.reduce((a, b) => a * b, 1);
      feeds[role] = new ort.Tensor(type, new ARRAYS[dtype](count).fill(standIn === 1 ? ONE[dtype] : 0), parameters);
    }
    inputs.push([role in feeds ? role : '', type]);
  }
  while (inputs.at(-1)[0] === '') inputs.pop();
  const statistic = dtype === 'F16' ? 'float32' : type;
  // Names of their own, since running statistics are inputs as well.
  const outputs = kind.outputs.map((role) => [
    kind.all || call.want.includes(role) ? `${role}_out` : '', role === 'mean' || role === 'rstd' ? statistic : type]);
  while (outputs.at(-1)[0] === '') outputs.pop();
  const session = await sessionFor(modelOf({...kind, attributes: kind.attributes(call), inputs, outputs}), call.threads);
  const results = await session.run(feeds);
  return Object.fromEntries(call.want.map((role) => {
    const {data, dims, type: got} = results[`${role}_out`];
    const leading = role === 'mean' || role === 'rstd' ? shape.slice(0, call.axis) : dims;
    return [role, {dtype: Object.keys(TYPES).find((d) => TYPES[d] === got), shape: leading, bytes: Buffer.from(data.buffer, data.byteOffset, data.byteLength)}];
  }));
}

// "0x1.4f8b588e368f1p-17"
function hexFloat(text) {
  const [, whole, fraction = '', exponent] = /^0x([0-9a-f]+)(?:\.([0-9a-f]*))?p([+-]?\d+)$/.exec(text);
  return Number(BigInt(`0x${whole}${fraction}`)) * 2 ** (Number(exponent) - 4 * fraction.length);
}

// The protocol: properties/src/program_subject.cc.
async function answer(body) {
  const start = 8 + Number(body.readBigUInt64LE(0));
  const {__metadata__: call, ...header} = JSON.parse(body.toString('utf8', 8, start));
  let reply = {}, outputs = {};
  if (call.op === 'hello') {
    reply = {name: `ONNX Runtime ${ort.env.versions.node}`, profile: PROFILE};
  } else {
    call.axis = Number(call.axis);
    call.threads = Number(call.threads ?? 0); // 0: as many as it likes
    call.epsilon = hexFloat(call.epsilon);
    call.momentum = hexFloat(call.momentum);
    call.want = call.want.split(',');
    const tensors = {};
    for (const [role, t] of Object.entries(header)) {
      // A copy, aligned for the typed arrays.
      const bytes = Buffer.from(Uint8Array.from(body.subarray(start + t.data_offsets[0], start + t.data_offsets[1])).buffer);
      tensors[role] = {dtype: t.dtype, shape: t.shape, bytes};
    }
    try {
      outputs = await normalize(call, tensors);
    } catch (error) {
      reply = {status: error instanceof Unsupported ? 'unsupported' : 'error', message: error.message.split('\n')[0]};
    }
  }
  const written = {__metadata__: reply}, data = [];
  let length = 0;
  for (const [role, {dtype, shape, bytes}] of Object.entries(outputs)) {
    written[role] = {dtype, shape, data_offsets: [length, length += bytes.length]};
    data.push(bytes);
  }
  const text = Buffer.from(JSON.stringify(written));
  const frame = Buffer.alloc(16);
  frame.writeBigUInt64LE(BigInt(8 + text.length + length), 0);
  frame.writeBigUInt64LE(BigInt(text.length), 8);
  process.stdout.write(Buffer.concat([frame, text, ...data]));
}

async function main() {
  let pending = Buffer.alloc(0);
  for await (const chunk of process.stdin) {
    pending = Buffer.concat([pending, chunk]);
    while (pending.length >= 8 && pending.length >= 8 + Number(pending.readBigUInt64LE(0))) {
      const end = 8 + Number(pending.readBigUInt64LE(0));
      await answer(pending.subarray(8, end));
      pending = pending.subarray(end);
    }
  }
}

main();
