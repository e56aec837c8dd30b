const $ = (id) => document.getElementById(id);
const state = { file: null, name: "", worker: null, module: null, serial: 0, waiting: new Map(), run: 0, ranges: null };

// bytes writes a number of bytes as the command does.
function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let k = 0, x = n;
  while (x >= 1024 && k < units.length - 1) { x /= 1024; k++; }
  return k === 0 ? `${n} B` : `${x.toFixed(2)} ${units[k]}`;
}

// planner compiles the planner, which lies in the page, packed and as text.
async function planner() {
  const text = atob($("wasm").textContent);
  const packed = Uint8Array.from(text, (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return WebAssembly.compile(await new Response(stream).arrayBuffer());
}

// start starts a worker. To cancel is to end it: a search does not listen.
async function start() {
  state.module ??= planner();
  const module = await state.module;
  const script = $("worker").textContent + `
let engine = null;
onmessage = ({ data }) => { if (data.module) engine = onnxmemEngine(data.module, (m) => postMessage(m)); else engine(data); };`;
  const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const w = new Worker(url);
  URL.revokeObjectURL(url);
  w.postMessage({ module });
  w.onmessage = ({ data: m }) => {
    if (m.ended) { failAll(new Error(m.ended)); return; }
    const call = state.waiting.get(m.id);
    if (!call) return;
    if (m.progress) { call.progress(m.progress); return; }
    state.waiting.delete(m.id);
    if (m.answer && m.answer.error) call.fail(new Error(m.answer.error));
    else call.done(m);
  };
  w.onerror = (e) => failAll(new Error(e.message));
  return w;
}

function failAll(err) {
  if (state.worker) state.worker.terminate();
  state.worker = null;
  for (const call of state.waiting.values()) call.fail(err);
  state.waiting.clear();
}

async function ask(request, source = null) {
  state.worker ??= await start();
  const id = ++state.serial;
  return new Promise((done, fail) => {
    state.waiting.set(id, { done, fail, progress: ({ work, note }) => { $("progress").textContent = note ? `${work}: ${note}` : `${work} …`; } });
    state.worker.postMessage({ id, request: { name: state.name, ...request }, source });
  });
}

// busy carries out work, shows its progress, and says what went wrong. Only the last work shows
// its result.
async function busy(work) {
  if (state.waiting.size) failAll(new Error("cancelled"));
  const run = ++state.run;
  $("error").hidden = true;
  $("cancel").hidden = false;
  $("progress").textContent = "starting …";
  document.body.setAttribute("aria-busy", "true");
  try {
    await work(() => run === state.run);
  } catch (err) {
    if (run === state.run && err.message !== "cancelled") {
      $("error").textContent = err.message;
      $("error").hidden = false;
    }
  }
  if (run === state.run) {
    $("cancel").hidden = true;
    $("progress").textContent = "";
    document.body.removeAttribute("aria-busy");
  }
}

// open takes a model: what is known of it, then a plan.
function open(file, name) {
  state.file = file;
  state.name = name;
  state.frontier = null;
  $("name").textContent = `${name}, ${bytes(file.size)}`;
  $("result").hidden = true;
  $("options").hidden = true;
  return busy(async (current) => {
    const { answer } = await ask({ call: "inspect" }, file);
    if (!current()) return;
    dims(answer.object.dims);
    $("options").hidden = false;
    await plan(current);
  });
}

// dims lists the open dimensions, each with its length and, for a plan for a range, a slider.
function dims(list) {
  const box = $("dims");
  box.querySelectorAll(".dim").forEach((e) => e.remove());
  const open = Object.entries(list).filter(([name, d]) => d.assumed && /^[A-Za-z_][\w.]*$/.test(name)).sort();
  box.hidden = open.length === 0;
  for (const [name] of open) {
    const row = document.createElement("div");
    row.className = "dim";
    const title = document.createElement("b");
    title.textContent = name;
    row.append(title);
    for (const [what, value] of [["length", "1"], ["to", ""]]) {
      const label = document.createElement("label");
      const input = document.createElement("input");
      Object.assign(input, { type: "number", min: 1, value, className: what, placeholder: what === "to" ? "—" : "" });
      input.setAttribute("aria-label", what === "to" ? `${name}: largest length, for one plan for all` : `${name}: length`);
      label.append(what === "to" ? "to " : "length ", input);
      row.append(label);
    }
    const label = document.createElement("label");
    label.className = "at";
    label.hidden = true;
    const range = document.createElement("input");
    range.type = "range";
    range.setAttribute("aria-label", `${name}: length to look at`);
    const out = document.createElement("output");
    label.append(range, out);
    range.addEventListener("input", () => { out.textContent = ` ${name} = ${range.value}`; });
    range.addEventListener("change", look);
    row.append(label);
    row.dataset.name = name;
    box.append(row);
  }
}

const rows = () => [...document.querySelectorAll("#dims .dim")];

// look looks at one point of a plan for ranges, which is planned already.
function look() {
  const at = {};
  for (const row of rows()) if (!row.querySelector(".at").hidden) at[row.dataset.name] = Number(row.querySelector(".at input").value);
  for (const [name, d] of Object.entries(state.dims)) if (!(name in at) && !d.assumed) at[name] = d.value;
  for (const name of Object.keys(at)) if (!(name in state.ranges)) delete at[name];
  return busy(async (current) => {
    const { answer } = await ask({ call: "at", dims: at });
    if (!current()) return;
    show(answer);
    await details(current);
  });
}

// flags are the options as flags of the command.
function flags() {
  const list = [];
  state.ranges = {};
  for (const row of rows()) {
    const low = row.querySelector(".length").value || "1", high = row.querySelector(".to").value;
    const several = high && Number(high) > Number(low);
    if (several) state.ranges[row.dataset.name] = [Number(low), Number(high)];
    if (several || low !== "1") list.push(`--dim=${row.dataset.name}=${several ? `${low}..${high}` : low}`);
  }
  if ($("train").checked) {
    list.push("--train", `--loss=${$("loss").value}`, `--optimizer=${$("optimizer").value}`);
    if ($("autocast").value) list.push(`--autocast=${$("autocast").value}`);
    if (Number($("lora").value)) list.push(`--lora=${$("lora").value}`);
  }
  if ($("limited").checked && Number($("limit").value) < 100) list.push(`--limit=${$("limit").value}%`);
  return list;
}

const outName = () => state.name.replace(/\.onnx$/, "") + ".planned.onnx";

async function plan(current, more = []) {
  const m = await ask({ call: "plan", out: outName(), args: [...flags(), ...more] }, state.file);
  if (!current()) return;
  state.files = m.files;
  state.dims = m.answer.dims;
  show(m.answer);
  $("notes").replaceChildren(...m.answer.notes.map((n) => Object.assign(document.createElement("li"), { textContent: n })));
  if (m.files.limits) $("limits").innerHTML = new TextDecoder().decode(m.files.limits[0]);
  const priced = flags().filter((f) => !f.startsWith("--limit")).join(" ");
  if (m.answer.frontier) Object.assign(state, { priced, frontier: m.answer.frontier, best: m.answer.plain_peak_bytes ?? m.answer.peak_bytes });
  else if (priced !== state.priced) state.frontier = null; // of another step
  note();
  for (const row of rows()) {
    const r = state.ranges[row.dataset.name], at = row.querySelector(".at");
    at.hidden = !r;
    if (r) {
      Object.assign(at.querySelector("input"), { min: r[0], max: r[1], value: r[1] });
      at.querySelector("output").textContent = ` ${row.dataset.name} = ${r[1]}`;
    }
  }
  $("result").hidden = false;
  await details(current);
}

// show shows the figures.
function show(s) {
  const list = [
    ["Peak, planned order", bytes(s.peak_bytes), "peak"],
    ["Peak, the file's order", bytes(s.program_order_peak_bytes), "program"],
    ["Lower bound", bytes(s.lower_bound_bytes) + (s.peak_bytes === s.lower_bound_bytes ? ", met" : ""), "bound"],
    ["Arena", bytes(s.arena_bytes), "arena"],
    ["Weights and constants", bytes(s.resident_bytes), "resident"],
    ["Arena and weights", bytes(s.total_bytes), "total"],
  ];
  $("figures").replaceChildren(...list.map(([name, value, id]) => {
    const box = document.createElement("div");
    box.append(Object.assign(document.createElement("dt"), { textContent: name }), Object.assign(document.createElement("dd"), { textContent: value, id: `figure-${id}` }));
    return box;
  }));
  $("text").textContent = s.text;
  downloads();
}

// details adds what takes longer: pictures and reasons.
async function details(current) {
  $("why").textContent = "…";
  const report = await ask({ call: "report" });
  if (!current()) return;
  state.report = report.files.report[0];
  $("pictures").srcdoc = new TextDecoder().decode(state.report);
  const { answer } = await ask({ call: "explain" });
  if (current()) $("why").textContent = answer.text;
}

// downloads offers the files. The planned model is made of parts of the file that was opened,
// which are not read before.
function downloads() {
  const base = outName();
  const list = [
    ["Planned model", base, () => new Blob(state.files.model.map((p) => p instanceof Uint8Array ? p : state.file.slice(p.off, p.end)))],
    ["Plan (JSON)", base.replace(/\.onnx$/, ".plan.json"), () => new Blob(state.files.plan)],
    ["Report (HTML)", base.replace(/\.onnx$/, ".report.html"), () => new Blob([state.report])],
    ["C header", base.replace(/\.onnx$/, ".h"), async () => new Blob((await ask({ call: "header" })).files.header)],
  ];
  if (state.files.folded) list.push(["Folded constants", base.replace(/\.onnx$/, ".folded.bin"), () => new Blob(state.files.folded)]);
  $("downloads").replaceChildren(...list.map(([title, name, make]) => {
    const b = Object.assign(document.createElement("button"), { type: "button", textContent: title });
    b.addEventListener("click", async () => {
      const a = Object.assign(document.createElement("a"), { href: URL.createObjectURL(await make()), download: name });
      a.click();
      setTimeout(() => URL.revokeObjectURL(a.href), 60000);
    });
    return b;
  }));
}

// note says what the limit of the slider is, and its price if that is known.
function note() {
  const percent = Number($("limit").value);
  let text = percent < 100 ? `${percent} % of the best order's peak` : "no limit";
  // The frontier has the limits of the slider, in bytes, down to the first that is impossible.
  const list = state.frontier || [], at = (p) => Math.round(20 * p.limit_bytes / state.best) * 5;
  const point = list.find((p) => at(p) === percent) || list.find((p) => p.impossible && percent < at(p));
  if (point && percent < 100) {
    if (point.extra_cost_percent !== null) text += `: ${point.extra_cost_percent.toFixed(1)} % more time`;
    else text += point.impossible ? ": impossible" : ": no plan found";
  }
  $("limit-note").textContent = text;
}

$("file").addEventListener("change", (e) => { if (e.target.files[0]) open(e.target.files[0], e.target.files[0].name); });
$("example").addEventListener("click", () => busy(async (current) => {
  const { files } = await ask({ call: "example", name: "mobilenet_v2" });
  if (current()) open(new Blob(files.model), "mobilenet_v2.onnx");
}));
for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (e) => {
    e.preventDefault();
    $("drop").classList.toggle("over", kind === "dragenter" || kind === "dragover");
    const file = kind === "drop" && e.dataTransfer.files[0];
    if (file) open(file, file.name);
  });
}
$("options").addEventListener("submit", (e) => { e.preventDefault(); busy((current) => plan(current)); });
$("cancel").addEventListener("click", () => { failAll(new Error("cancelled")); });
$("train").addEventListener("change", () => { $("training").hidden = !$("train").checked; });
$("limited").addEventListener("change", () => { $("limiting").hidden = !$("limited").checked; });
$("limit").addEventListener("input", note);
$("price").addEventListener("click", () => busy((current) => plan(current, ["--frontier"])));
note();
