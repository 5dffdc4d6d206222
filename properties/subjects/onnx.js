// ONNX models of one node, as bytes: the few messages of onnx.proto that this takes.
'use strict';

const FLOAT = 1, INT = 2; // AttributeProto.AttributeType
const ELEMENT_TYPES = {float32: 1, float16: 10, float64: 11}; // TensorProto.DataType
const IR_VERSION = 8;

// Fields of a message, by number: numbers are varints, strings and messages have a length, floats are four bytes.
function message(...fields) {
  return Buffer.concat(fields.flatMap(([number, value, as]) => {
    if (as === 'float') {
      const bytes = Buffer.alloc(4);
      bytes.writeFloatLE(value);
      return [varint(number << 3 | 5), bytes];
    }
    if (typeof value === 'number') return [varint(number << 3), varint(value)];
    const bytes = Buffer.from(value);
    return [varint(number << 3 | 2), varint(bytes.length), bytes];
  }));
}

function varint(value) {
  const bytes = [];
  for (let rest = BigInt.asUintN(64, BigInt(value));; rest >>= 7n) {
    if (rest < 128n) return Buffer.from([...bytes, Number(rest)]);
    bytes.push(Number(rest & 127n) | 128);
  }
}

function attribute([name, [type, value]]) {
  return message([1, name], type === FLOAT ? [2, value, 'float'] : [3, value], [20, type]);
}

function valueInfo([name, type]) {
  return message([1, name], [2, message([1, message([1, ELEMENT_TYPES[type]])])]); // of any shape
}

// inputs, outputs: [name, type] in the order of the op; a name that is '' stands for an optional one that is not there.
function modelOf({op, opset, attributes, inputs, outputs}) {
  const present = ([name]) => name !== '';
  const node = message(...inputs.map(([name]) => [1, name]), ...outputs.map(([name]) => [2, name]), [4, op],
    ...Object.entries(attributes).map((a) => [5, attribute(a)]));
  const graph = message([1, node], [2, 'norma'], ...inputs.filter(present).map((i) => [11, valueInfo(i)]),
    ...outputs.filter(present).map((o) => [12, valueInfo(o)]));
  return message([1, IR_VERSION], [7, graph], [8, message([1, ''], [2, opset])]);
}

module.exports = {modelOf, float: (value) => [FLOAT, value], int: (value) => [INT, value]};
