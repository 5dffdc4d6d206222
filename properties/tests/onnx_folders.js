// The folders of norma golden export --format onnx, put to ONNX Runtime: node onnx_folders.js DIR
//
// Prints one JSON object: `ops`, by the operator how many folders were `run`, and how many of these gave what is inside all of their
// intervals, `inside`; `outside`, what of a folder is not, and `excused`, the same where the severity is should; `unsupported`, by the
// reason how many folders could not be run.
'use strict';

const fs = require('fs');
const path = require('path');
const ort = require('../subjects/node_modules/onnxruntime-node');

// By TensorProto.DataType: ONNX Runtime's name, the array that holds the elements, and the value of one.
const TYPES = {
  1: ['float32', Float32Array, (v) => v],
  10: ['float16', Uint16Array, half],
  11: ['float64', Float64Array, (v) => v],
};

function half(bits) {
  const sign = bits >> 15 ? -1 : 1, exponent = bits >> 10 & 31, fraction = (bits & 1023) / 1024;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 1 + fraction : fraction * 2) * 2 ** (exponent - 15);
}

// The fields of a message, by number: lists of numbers and of bytes.
function fieldsOf(bytes) {
  const fields = {};
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n;; shift += 7n) {
      const byte = BigInt(bytes[at++]);
      value |= (byte & 127n) << shift;
      if (byte < 128n) return Number(BigInt.asIntN(64, value));
    }
  };
  while (at < bytes.length) {
    const key = varint(), number = key >> 3;
    const length = {0: 0, 2: 1, 5: 4}[key & 7];
    let value;
    if (length === 0) value = varint();
    else {
      const size = length === 1 ? varint() : length;
      value = bytes.subarray(at, at += size);
    }
    (fields[number] ??= []).push(value);
  }
  return fields;
}

function tensorIn(file) {
  const {1: shape = [], 2: [type], 8: [name], 9: [raw]} = fieldsOf(fs.readFileSync(file));
  const [kind, List, value] = TYPES[type] ?? [];
  if (kind === undefined) return {kind: `data type ${type}`};
  return {kind, value, shape, name: name.toString(), data: new List(Uint8Array.from(raw).buffer)};
}

function modelIn(file) {
  const bytes = fs.readFileSync(file), model = fieldsOf(bytes);
  const properties = model[14].map((p) => fieldsOf(p)).map(({1: [key], 2: [value]}) => [key.toString(), value.toString()]);
  return {bytes, op: fieldsOf(fieldsOf(model[7][0])[1][0])[4][0].toString(), ...Object.fromEntries(properties)};
}

class Unsupported extends Error {}

async function sessionOf(bytes) {
  try {
    return await ort.InferenceSession.create(bytes, {logSeverityLevel: 4, intraOpNumThreads: 1});
  } catch (error) {
    if (/Could not find an implementation|Failed to find kernel/.test(error.message)) throw new Unsupported('no kernel for such tensors');
    throw error;
  }
}

// A NaN where there is none but NaN, and a zero of either sign is one number.
const isInside = (v, low, high) => (Number.isNaN(v) ? Number.isNaN(low) : low <= v && v <= high);

// What of its outputs is outside of its interval first, or undefined.
async function firstOutside(folder, model) {
  const tensors = (kind) => {
    const list = [];
    for (let k = 0; fs.existsSync(path.join(folder, `${kind}_${k}.pb`)); ++k) list.push(tensorIn(path.join(folder, `${kind}_${k}.pb`)));
    return list;
  };
  const inputs = tensors('input');
  for (const {kind} of inputs) {
    if (!Object.values(TYPES).some(([name]) => name === kind)) throw new Unsupported(`no tensors of ${kind} in JavaScript`);
  }
  const session = await sessionOf(model.bytes);
  try {
    const results = await session.run(Object.fromEntries(inputs.map((t) => [t.name, new ort.Tensor(t.kind, t.data, t.shape)])));
    const lows = tensors('low'), high = tensors('high');
    if (lows.length === 0 || high.length !== lows.length || tensors('output').length !== lows.length) return 'has no interval of every output';
    for (const [k, low] of lows.entries()) {
      const {data, dims, type} = results[low.name];
      if (type !== low.kind || `${dims}` !== `${low.shape}`) return `${low.name} is ${type}[${dims}], expected ${low.kind}[${low.shape}]`;
      const got = new low.data.constructor(data.buffer, data.byteOffset, data.length);
      for (let i = 0; i < low.data.length; ++i) {
        const [v, least, most] = [got[i], low.data[i], high[k].data[i]].map(low.value);
        if (!isInside(v, least, most)) return `${low.name}[${i}] is ${v}, expected ${least} to ${most}`;
      }
    }
  } finally {
    await session.release();
  }
}

async function main(dir) {
  const report = {version: ort.env.versions.node, ops: {}, outside: [], excused: [], unsupported: {}};
  for (const name of fs.readdirSync(dir).filter((n) => n.startsWith('test_')).sort()) {
    const model = modelIn(path.join(dir, name, 'model.onnx'));
    let what;
    try {
      what = await firstOutside(path.join(dir, name, 'test_data_set_0'), model);
    } catch (error) {
      if (error instanceof Unsupported) {
        const reason = `${model.op}: ${error.message}`;
        report.unsupported[reason] = (report.unsupported[reason] ?? 0) + 1;
        continue;
      }
      what = error.message.split('\n')[0];
    }
    const count = report.ops[model.op] ??= {run: 0, inside: 0};
    ++count.run;
    if (what === undefined) ++count.inside;
    else (model.severity === 'must' ? report.outside : report.excused).push({id: name.slice('test_'.length), op: model.op, what});
  }
  console.log(JSON.stringify(report));
}

main(process.argv[2]);
