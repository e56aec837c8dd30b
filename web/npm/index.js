// onnxmem plans the memory of ONNX models. Everything runs in one worker, call after call.
import { flagsOf } from "./flags.js";

const inNode = typeof process !== "undefined" && !!process.versions?.node;
let compiled = null; // the planner, once for all workers
let worker = null;
let last = Promise.resolve();

// start returns {send, onMessage, onError, end}.
async function start() {
  if (!inNode) {
    const w = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    return {
      send: (m) => w.postMessage(m), end: () => w.terminate(), idle: () => {}, busy: () => {},
      listen: (got, failed) => { w.onmessage = (e) => got(e.data); w.onerror = (e) => failed(new Error(e.message)); },
    };
  }
  const { Worker: NodeWorker } = await import("node:worker_threads");
  const { readFile } = await import("node:fs/promises");
  compiled ??= readFile(new URL("./onnxmem.wasm", import.meta.url)).then((b) => WebAssembly.compile(b));
  const w = new NodeWorker(new URL("./worker-node.js", import.meta.url), { workerData: await compiled });
  w.unref();
  return {
    send: (m) => w.postMessage(m), end: () => w.terminate(), idle: () => w.unref(), busy: () => w.ref(),
    listen: (got, failed) => { w.removeAllListeners(); w.on("message", got); w.on("error", failed); },
  };
}

// OnnxmemError is what the command would print, with the exit status that it would have.
export class OnnxmemError extends Error {
  constructor(message, status) {
    super(message);
    this.name = "OnnxmemError";
    this.status = status;
  }
}

// ask sends one request after those before it.
function ask(request, source, options) {
  const turn = last.then(() => asked(request, source, options));
  last = turn.catch(() => {});
  return turn;
}

async function asked(request, source, { signal, onProgress }) {
  signal?.throwIfAborted();
  worker ??= await start();
  const w = worker;
  w.busy();
  const gone = () => { if (worker === w) worker = null; w.end(); };
  try {
    return await new Promise((done, fail) => {
      const stop = () => { gone(); fail(signal.reason); };
      signal?.addEventListener("abort", stop, { once: true });
      w.listen((m) => {
        if (m.ended) { gone(); fail(new OnnxmemError(m.ended, 1)); return; }
        if (m.progress) { onProgress?.(m.progress); return; }
        signal?.removeEventListener("abort", stop);
        if (m.answer?.error) fail(new OnnxmemError(m.answer.error, m.answer.status));
        else done(m);
      }, (err) => { gone(); fail(err); });
      w.send({ id: 0, request, source });
    });
  } finally {
    if (worker === w) w.idle();
  }
}

// bytesOf is a view of what a caller passes.
function bytesOf(x) {
  if (x instanceof Uint8Array) return x;
  if (x instanceof ArrayBuffer) return new Uint8Array(x);
  if (ArrayBuffer.isView(x)) return new Uint8Array(x.buffer, x.byteOffset, x.byteLength);
  if (typeof x === "string") return new TextEncoder().encode(x);
  throw new TypeError("expected an ArrayBuffer or a Uint8Array");
}

// joined puts the parts of a file together.
function joined(parts, source) {
  const list = parts.map((p) => p instanceof Uint8Array ? p : source.subarray(p.off, p.end));
  const out = new Uint8Array(list.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of list) { out.set(p, at); at += p.length; }
  return out;
}

// split takes the options apart: those of the package, and flags.
function split({ name = "model.onnx", out = "planned.onnx", signal, onProgress, args = [], ...rest } = {}) {
  return [{ name, out, args: [...flagsOf(rest), ...args] }, { signal, onProgress }];
}

// optimize plans a model.
export async function optimize(model, options) {
  const [request, how] = split(options);
  const source = bytesOf(model);
  const { answer, files } = await ask({ call: "plan", ...request }, source, how);
  const { text, notes, title, dims, ...summary } = answer;
  return {
    model: joined(files.model, source), plan: new TextDecoder().decode(joined(files.plan)), summary, text, notes,
    ...(files.folded && { folded: joined(files.folded) }),
  };
}

// inspect describes a model.
export async function inspect(model, options) {
  const [request, how] = split(options);
  const { answer } = await ask({ call: "inspect", ...request }, bytesOf(model), how);
  return { ...answer.object, text: answer.text };
}

// explain plans a model and says why its peak is what it is.
export async function explain(model, options) {
  const [request, how] = split(options);
  const { answer } = await ask({ call: "planAndExplain", ...request }, bytesOf(model), how);
  return { ...answer.object, text: answer.text };
}

// order orders the nodes of a bare problem, which is JSON, text or an object.
export async function order(problem, options) { return bare("order", problem, options); }

// pack places buffers: a CSV, or JSON, text or an object.
export async function pack(buffers, options) { return bare("pack", buffers, options); }

async function bare(call, problem, options) {
  const [request, how] = split({ name: "problem", ...options });
  const plain = typeof problem === "object" && !ArrayBuffer.isView(problem) && !(problem instanceof ArrayBuffer);
  const { answer } = await ask({ call, ...request }, bytesOf(plain ? JSON.stringify(problem) : problem), how);
  return answer;
}
