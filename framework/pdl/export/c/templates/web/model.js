// A model compiled to WebAssembly by pdl {{VERSION}}. It runs wherever WebAssembly has SIMD: browsers, workers, Node.js.

/** What the model takes and gives; sizes are fixed, arrays are row-major, images [N, H, W, C]. */
export const about = {{ABOUT}};

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, bool: Uint8Array, uint8: Uint8Array, int8: Int8Array, int16: Int16Array,
  uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array,
};
const PAGE = 65536;

/** The array type of a port of `about`. */
export const arrayOf = (port) => ARRAYS[port.dtype];

/** The elements of a port. */
export const sizeOf = (port) => port.shape.reduce((all, n) => all * n, 1);

/** The model, of model.wasm beside this file, or of an address, bytes, a Response or a WebAssembly.Module. */
export async function load(source = new URL("model.wasm", import.meta.url)) {
  const module = source instanceof WebAssembly.Module ? source : await WebAssembly.compile(await bytesOf(source));
  return new Model(await WebAssembly.instantiate(module, {}));
}

async function bytesOf(source) {
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return source;
  const answer = typeof Response !== "undefined" && source instanceof Response;
  const url = answer ? source.url : new URL(source, import.meta.url);
  if (url.protocol === "file:" && typeof process !== "undefined") return (await import("node:fs/promises")).readFile(url);
  const response = answer ? source : await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  return response.arrayBuffer();
}

export class Model {
  #wasm;
  #places = new Map();
  #end;

  constructor(instance) {
    this.#wasm = instance.exports;
    this.#wasm._initialize?.();
    this.#end = this.#wasm.__heap_base.value;
    for (const port of [...about.inputs, ...about.outputs]) {
      this.#end = Math.ceil(this.#end / 64) * 64;
      this.#places.set(port, this.#end);
      this.#end += sizeOf(port) * arrayOf(port).BYTES_PER_ELEMENT;
    }
    this.#end = Math.ceil(this.#end / 64) * 64;
    this.#reserve(this.#end);
  }

  #reserve(bytes) {
    const missing = bytes - this.#wasm.memory.buffer.byteLength;
    if (missing > 0) this.#wasm.memory.grow(Math.ceil(missing / PAGE));
  }

  #view(port) {
    return new (arrayOf(port))(this.#wasm.memory.buffer, this.#places.get(port), sizeOf(port));
  }

  /** Outputs by name, of inputs by name, or of the only input itself: typed arrays, or arrays of numbers. */
  run(inputs) {
    const single = about.inputs.length === 1 && (ArrayBuffer.isView(inputs) || Array.isArray(inputs));
    const given = single ? { [about.inputs[0].name]: inputs } : inputs;
    for (const port of about.inputs) {
      const values = given[port.name], size = sizeOf(port);
      if (values?.length !== size) {
        const found = values === undefined ? "is missing" : `has ${values.length} elements`;
        throw new RangeError(`input ${port.name} ${found}; it needs ${size}, [${port.shape}]`);
      }
      this.#view(port).set(values);
    }
    this.#wasm[`${about.name}_run`](...[...about.inputs, ...about.outputs].map((port) => this.#places.get(port)));
    return Object.fromEntries(about.outputs.map((port) => [port.name, this.#view(port).slice()]));
  }

  /** The input of the net, of a picture: an ImageData, or { data, width, height } with red, green, blue, alpha bytes. */
  prepare(picture) {
    if (!about.picture) throw new TypeError(`${about.name} has no steps that take pictures`);
    const { data, width, height } = picture, channels = about.picture.channels, pixels = width * height;
    if (!(pixels > 0) || data.length !== 4 * pixels) throw new RangeError(`a picture of ${width} x ${height} pixels needs ${4 * pixels} bytes`);
    this.#reserve(this.#end + pixels * channels);
    const bytes = new Uint8Array(this.#wasm.memory.buffer, this.#end, pixels * channels);
    for (let i = 0, from = 0; i < bytes.length; from += 4) {
      if (channels === 1) bytes[i++] = (9798 * data[from] + 19235 * data[from + 1] + 3735 * data[from + 2] + 16384) >> 15;
      else for (let c = 0; c < 3; c++) bytes[i++] = data[from + c];
    }
    const port = about.inputs.find((each) => each.name === about.picture.input);
    this.#wasm[`${about.name}_prepare`](this.#places.get(port), this.#end, height, width);
    return this.#view(port).slice();
  }

  /** The best classes of a picture, best first: [{ label, index, score }]. */
  classify(picture, count = 5) {
    if (!about.ranking) throw new TypeError(`${about.name} does not rank classes`);
    const values = this.run({ [about.picture.input]: this.prepare(picture) })[about.ranking.output];
    return [...scores(values)].map((score, index) => ({ label: about.labels[index], index, score }))
      .sort((a, b) => b.score - a.score).slice(0, count);
  }
}

/** The numbers of the ranking's output as scores: probabilities where the model has them. */
export function scores(values) {
  if (about.ranking.score === "sigmoid") return Float64Array.from(values, (v) => 1 / (1 + Math.exp(-v)));
  if (about.ranking.score !== "softmax") return Float64Array.from(values);
  const most = values.reduce((a, b) => Math.max(a, b));
  const parts = Float64Array.from(values, (v) => Math.exp(v - most)), sum = parts.reduce((a, b) => a + b);
  return parts.map((v) => v / sum);
}
