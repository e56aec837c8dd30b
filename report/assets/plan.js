// plan.js: the plan as columns, and its things in words. Steps and buffers are
// indices; bytes are numbers below 2^53.

const given = JSON.parse(document.getElementById("plan").textContent);
const list = (column) => column || [];

// sums undoes differences.
function sums(column) {
  let sum = 0;
  return list(column).map((d) => (sum += d));
}

// spelled undoes the sharing of beginnings.
function spelled(names) {
  let last = "";
  return list(names.rest).map((rest, i) => (last = last.slice(0, names.same[i]) + rest));
}

const inBytes = (column) => list(column).map((n) => n * given.unit);

const steps = {
  name: spelled(given.steps.name),
  op: list(given.steps.op).map((i) => given.steps.ops[i]),
  load: inBytes(sums(given.steps.load)),
};
steps.count = steps.name.length;

const program = {
  steps: sums(given.program.steps),
  load: inBytes(sums(given.program.load)),
};
program.at = new Int32Array(steps.count).fill(-1); // the place of a step in program order
program.steps.forEach((step, i) => (program.at[step] = i));
program.same = program.steps.length === steps.count && program.steps.every((step, i) => step === i);

const pools = list(given.pools).map((pool) => ({ name: pool.name, bytes: pool.bytes * given.unit }));
const kinds = list(given.kinds);

const buffers = {
  pool: list(given.buffers.pool),
  kind: list(given.buffers.kind),
  first: Int32Array.from(sums(given.buffers.first)),
  offset: Float64Array.from(inBytes(given.buffers.offset)),
  bytes: Float64Array.from(inBytes(given.buffers.bytes)),
  node: list(given.buffers.node),
  bounded: new Set(list(given.buffers.bounded)),
};
buffers.count = buffers.first.length;
buffers.last = Int32Array.from(list(given.buffers.span), (span, b) => buffers.first[b] + span);
buffers.tensors = (() => {
  const all = spelled(given.buffers.tensor);
  let at = 0;
  return list(given.buffers.count).map((n) => all.slice(at, (at += n)));
})();

const peak = { bytes: given.peak * given.unit, step: given.peakStep };
const bound = given.bound * given.unit;

// counted says whether a buffer's bytes are part of the load.
const counted = (b) => !["resident", "host"].includes(pools[buffers.pool[b]].name);

// live lists the buffers that are live at a step and count, the largest first.
function live(step) {
  const found = [];
  for (let b = 0; b < buffers.count && buffers.first[b] <= step; b++) {
    if (buffers.last[b] >= step && buffers.bytes[b] > 0 && counted(b)) found.push(b);
  }
  return found.sort((a, b) => buffers.bytes[b] - buffers.bytes[a] || a - b);
}

// hundredths rounds halves to even, as the rest of onnxmem does. Only eighths have
// halves of a hundredth.
function hundredths(n) {
  if (!Number.isInteger(n * 8) || (n * 100) % 1 !== 0.5) return n.toFixed(2);
  const down = Math.floor(n * 100);
  return ((down + (down % 2)) / 100).toFixed(2);
}

const grouped = (n) => n.toLocaleString("en-US");

// short prints bytes in binary units, as "7.66 MiB".
function short(n) {
  if (n < 1024) return n + " B";
  let unit = -1;
  while (n >= 1024) {
    n /= 1024;
    unit++;
  }
  return hundredths(n) + " " + "KMGTPE"[unit] + "iB";
}

// exact prints bytes with their exact figure, as "7.66 MiB (8,028,160 B)".
const exact = (n) => (n < 1024 ? n + " B" : short(n) + " (" + grouped(n) + " B)");

// node names the node that runs at a step.
function node(step) {
  if (step >= steps.count) return "";
  return steps.name[step] ? steps.name[step] + ", " + steps.op[step] : steps.op[step];
}

// called names a buffer.
function called(b, most = 3) {
  const names = buffers.tensors[b];
  if (names.length === 0) return buffers.node[b] ? "workspace of " + node(buffers.node[b] - 1) : "buffer " + b;
  const more = names.length - most;
  return names.slice(0, most).join(", ") + (more > 0 ? " and " + more + " more" : "");
}

const kindOf = (b) => kinds[buffers.kind[b]];

// maker says which node makes a buffer's first tensor.
function maker(b) {
  const kind = kindOf(b), first = buffers.first[b];
  if (kind === "workspace") return buffers.node[b] ? node(buffers.node[b] - 1) : node(first);
  if (kind === "input") return "graph input";
  if (pools[buffers.pool[b]].name === "resident") return "given with the model";
  if (kind === "output" && first === 0) return node(0) + ", or a graph input";
  return node(first);
}

// reader says what ends a buffer's life.
function reader(b) {
  const kind = kindOf(b), first = buffers.first[b], last = buffers.last[b];
  if (kind === "workspace") return "ends with its node";
  if (pools[buffers.pool[b]].name === "resident") return "stays";
  if (last >= steps.count - 1 && kind === "output") return "kept to the end: graph output";
  if (first === last && kind !== "input") return "nobody";
  if (last >= steps.count - 1 && kind !== "activation" && kind !== "input") return node(last) + ", or kept to the end";
  return node(last);
}

// described is what is said of a buffer, as pairs.
function described(b) {
  const pool = pools[buffers.pool[b]].name;
  const size = exact(buffers.bytes[b]) + (buffers.bounded.has(b) ? ", at most: known only at run time" : "");
  return [
    [buffers.tensors[b].length > 1 ? "Tensors" : "Tensor", called(b, 6)],
    ["Size", size],
    ["Kind", kindOf(b)],
    ["Lifetime", "steps " + buffers.first[b] + "–" + buffers.last[b]],
    ["Made by", maker(b)],
    ["Last read by", reader(b)],
    ["Offset", grouped(buffers.offset[b]) + " B in " + pool],
  ];
}

// element makes an element that holds a text: names are never markup.
function element(tag, text, attributes) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  for (const [name, value] of Object.entries(attributes || {})) e.setAttribute(name, value);
  return e;
}

const byID = (id) => document.getElementById(id);
