// worker-node.js is the worker in Node.
import { parentPort, workerData } from "node:worker_threads";
import "./wasm_exec.js";
import "./engine.js";

const engine = globalThis.onnxmemEngine(workerData, (message) => parentPort.postMessage(message));
parentPort.on("message", engine);
