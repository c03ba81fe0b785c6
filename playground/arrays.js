// arrays.js - arrays for `tilec run`: numbers drawn by a seed, .npy files, and what is shown of a result.
"use strict";

// kind and bytes as NumPy has them; from a number to bits, and back.  Bits alone: of what NumPy has no numbers for.
const halfOf = number => { // f32 to f16, to even
  const bits = new Uint32Array(new Float32Array([number]).buffer)[0], sign = bits >>> 16 & 0x8000, size = bits & 0x7fffffff;
  if (size >= 0x47800000)
    return sign | (size > 0x7f800000 ? 0x7e00 : 0x7c00);
  if (size < 0x38800000) { // below the normal ones: in units of 2^-24
    const units = Math.abs(number) * 2 ** 24, low = Math.floor(units), rest = units - low;
    return sign | (low + (rest > 0.5 || (rest === 0.5 && low % 2 === 1) ? 1 : 0));
  }
  const rounded = size - 0x38000000 + 0xfff + (size >>> 13 & 1);
  return sign | Math.min(rounded >>> 13, 0x7c00);
};
const numberOfHalf = bits => {
  const size = bits & 0x7fff, sign = bits & 0x8000 ? -1 : 1, exponent = size >> 10;
  return exponent === 31 ? (size & 0x3ff ? NaN : sign * Infinity)
    : exponent === 0 ? sign * size * 2 ** -24 : sign * (1 + (size & 0x3ff) / 1024) * 2 ** (exponent - 15);
};
const bfloatOf = number => {
  const bits = new Uint32Array(new Float32Array([number]).buffer)[0];
  return bits + 0x7fff + (bits >>> 16 & 1) >>> 16;
};
const numberOfBfloat = bits => new Float32Array(new Uint32Array([bits << 16]).buffer)[0];
const same = number => number;

const TYPES = {
  f32: {npy: "<f4", array: Float32Array, to: same, from: same, draw: r => Math.fround(2 * r - 1)},
  f16: {npy: "<f2", array: Uint16Array, to: halfOf, from: numberOfHalf, draw: r => 2 * r - 1},
  bf16: {npy: "<u2", array: Uint16Array, to: bfloatOf, from: numberOfBfloat, draw: r => 2 * r - 1},
  i32: {npy: "<i4", array: Int32Array, to: same, from: same, draw: r => Math.floor(4 * r)},
  u32: {npy: "<u4", array: Uint32Array, to: same, from: same, draw: r => Math.floor(4 * r)},
  i8: {npy: "|i1", array: Int8Array, to: same, from: same, draw: r => Math.floor(9 * r) - 4},
  u8: {npy: "|u1", array: Uint8Array, to: same, from: same, draw: r => Math.floor(9 * r)},
  // codes of moderate numbers; shown as codes
  e4m3: {npy: "|u1", array: Uint8Array, to: same, from: same, draw: r => 0x28 + Math.floor(16 * r)},
  e5m2: {npy: "|u1", array: Uint8Array, to: same, from: same, draw: r => 0x34 + Math.floor(8 * r)},
  e8m0: {npy: "|u1", array: Uint8Array, to: same, from: same, draw: r => 126 + Math.floor(3 * r)},
  bool: {npy: "|b1", array: Uint8Array, to: same, from: same, draw: r => Math.floor(2 * r)},
};

// Numbers in [0, 1) that depend on the seed alone (a 32-bit mix of a counter).
function drawing(seed) {
  let n = seed >>> 0;
  return () => {
    let x = n = n + 0x9e3779b9 >>> 0;
    x = Math.imul(x ^ x >>> 16, 0x85ebca6b);
    x = Math.imul(x ^ x >>> 13, 0xc2b2ae35);
    return ((x ^ x >>> 16) >>> 0) / 2 ** 32;
  };
}

function npyOf(type, shape, next) {
  const n = shape.reduce((product, size) => product * size, 1), {npy, array: Bits, to, draw} = TYPES[type];
  const tuple = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
  let head = `{'descr': '${npy}', 'fortran_order': False, 'shape': ${tuple}, }`;
  head = head.padEnd(Math.ceil((head.length + 11) / 64) * 64 - 11) + "\n";
  const data = Bits.from({length: n}, () => to(draw(next())));
  const file = new Uint8Array(10 + head.length + data.byteLength);
  file.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, head.length & 255, head.length >> 8]);
  file.set(new TextEncoder().encode(head), 10);
  file.set(new Uint8Array(data.buffer), 10 + head.length);
  return file;
}

// The numbers of a .npy file that tilec wrote, and their shape.
function numbersOf(type, file) {
  const head = file[8] | file[9] << 8, text = new TextDecoder().decode(file.slice(10, 10 + head));
  const shape = (text.match(/'shape': \(([^)]*)\)/)[1].match(/\d+/g) || []).map(Number);
  const {array: Bits, from} = TYPES[type];
  return {shape, numbers: Array.from(new Bits(file.slice(10 + head).buffer), from)};
}

// "Y: f32[4, 8]", its rows, those in the middle and of the first of all further dimensions left out.
function shown(name, type, {shape, numbers}) {
  const most = 8, columns = shape.length > 0 ? shape[shape.length - 1] : 1, rows = columns > 0 ? numbers.length / columns : 0;
  const lines = [`${name}: ${type}[${shape.join(", ")}]`];
  for (let row = 0; row < Math.min(rows, most); row++) {
    const cells = numbers.slice(row * columns, row * columns + Math.min(columns, most))
      .map(x => (Number.isInteger(x) ? String(x) : x.toPrecision(5)).padStart(11));
    lines.push(cells.join("") + (columns > most ? "  .." : ""));
  }
  if (rows > most)
    lines.push(`         ..  ${rows} rows`);
  return lines.join("\n");
}

// An expression of sizes as the metadata writes it: whole numbers, names, + - * / %, parentheses, cdiv, min and max.
function evaluate(text, valueOf) {
  const tokens = text.match(/\d+|\w+|[-+*/%(),]/g) || [];
  let at = 0;
  const take = token => tokens[at] === token && ++at > 0;
  const calls = {cdiv: (a, b) => Math.ceil(a / b), min: Math.min, max: Math.max};
  const apply = {"+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "/": (a, b) => Math.trunc(a / b), "%": (a, b) => a % b};
  function one() {
    if (take("-"))
      return -one();
    if (take("(")) {
      const inner = sum();
      take(")");
      return inner;
    }
    const token = tokens[at++];
    if (/^\d/.test(token))
      return Number(token);
    if (!take("("))
      return valueOf(token);
    const list = [sum()];
    while (take(","))
      list.push(sum());
    take(")");
    return calls[token](...list);
  }
  function chain(part, signs) {
    let left = part();
    while (signs.includes(tokens[at]))
      left = apply[tokens[at++]](left, part());
    return left;
  }
  const product = () => chain(one, ["*", "/", "%"]), sum = () => chain(product, ["+", "-"]);
  return sum();
}
