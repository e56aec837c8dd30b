// worker.js is the worker in a browser.
import "./wasm_exec.js";
import "./engine.js";

const module = WebAssembly.compileStreaming(fetch(new URL("./onnxmem.wasm", import.meta.url)));
const engine = module.then((m) => globalThis.onnxmemEngine(m, (message) => postMessage(message)));
onmessage = async ({ data }) => (await engine)(data);
