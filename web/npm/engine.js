// engine.js runs the planner in a worker: after Go's wasm_exec.js, in a browser or in Node.
// It answers messages {id, request, source}, where source is a Blob, a Uint8Array or null, by
// {id, progress} and {id, answer, files}.
globalThis.onnxmemEngine = (module, post) => {
  // The planner opens no file, so that it finds none of the machine on which it runs.
  const source = (from) => {
    if (!from) return { size: 0, read: () => new Uint8Array(0) };
    if (from instanceof Uint8Array) return { size: from.length, read: (off, end) => from.subarray(off, end) };
    const reader = new FileReaderSync();
    return { size: from.size, read: (off, end) => new Uint8Array(reader.readAsArrayBuffer(from.slice(off, end))) };
  };
  const go = new Go();
  const began = new Promise((ready) => { globalThis.onnxmemReady = ready; });
  let ended = null;
  WebAssembly.instantiate(module, go.importObject).then((instance) => go.run(instance)).then(
    () => { ended = "onnxmem: the planner ended"; },
    (err) => { ended = `onnxmem: the planner ended: ${err.message}`; },
  ).then(() => post({ ended }));
  return async ({ id, request, source: from }) => {
    await began;
    globalThis.onnxmemCall(JSON.stringify(request), source(from),
      (work, note) => post({ id, progress: { work, note } }),
      (answer, files) => post({ id, answer: JSON.parse(answer), files }));
  };
};
