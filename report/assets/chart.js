// chart.js: the load over the steps, drawn by uPlot, and the line that says what
// is under the cursor.

// envelope gives at most about 2000 points of a curve within the view: where
// points are closer than that, the largest of each group.
function envelope(load, from, to, columns) {
  const width = Math.max(1, Math.ceil((to - from) / columns));
  const out = [];
  for (let i = from; i < to; i += width) {
    let most = null;
    for (let k = i; k < Math.min(i + width, to, load.length); k++) if (load[k] > most || most === null) most = load[k];
    out.push(most);
  }
  out.push(out.length ? out[out.length - 1] : null); // the last step has a width, too
  return out;
}

function seen() {
  const from = Math.max(0, Math.floor(view.x0) - 1), to = Math.min(steps.count, Math.ceil(view.x1) + 1);
  const columns = 1600, width = Math.max(1, Math.ceil((to - from) / columns));
  const x = [];
  for (let i = from; i < to; i += width) x.push(i);
  x.push(to);
  return [x, envelope(program.load, from, to, columns), envelope(steps.load, from, to, columns), x.map(() => bound)];
}

// marks are powers of two times 1, 2, 4, ...: the ticks of an axis of bytes.
const marks = Array.from({ length: 53 }, (_, i) => 2 ** i);

let chart = null;

// highest is the top of the axis: room for both curves.
const highest = () => Math.max(1, program.load.reduce((a, b) => Math.max(a, b), peak.bytes)) * 1.06;

function makeChart() {
  const host = byID("load");
  if (chart) chart.destroy();
    const axis = { stroke: () => colours.muted, grid: { stroke: () => colours.grid, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  const stepped = uPlot.paths.stepped({ align: 1 });
  chart = new uPlot({
    width: host.clientWidth, height: host.clientHeight,
    padding: [8, margin.right, 0, 0],
    legend: { show: false },
    cursor: { show: false },
    scales: { x: { time: false, auto: false, range: () => [view.x0, view.x1] }, y: { auto: false } },
    axes: [
      { ...axis, size: 26, space: 60, values: (_, list) => list.map(String), incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6] },
      { ...axis, size: margin.left, incrs: marks, space: 36, values: (_, list) => list.map(tick) },
    ],
    series: [
      {},
      { paths: stepped, stroke: () => colours.program, width: 1.25, points: { show: false } },
      { paths: stepped, stroke: () => colours.planned, fill: () => colours.planned + "26", width: 1.75, points: { show: false } },
      { stroke: () => colours.bound, width: 1.25, dash: [6, 4], points: { show: false } },
    ],
    hooks: { drawClear: [underChart], draw: [overChart] },
  }, seen(), host);
  let shade = null;
  gestures(chart.over, {
    vertical: false,
    hover: (at) => moveTo(at ? stepAt(at.x) : -1),
    click: (at) => { moveTo(stepAt(at.x)); tableAt(stepAt(at.x)); },
    box: (a, b, done) => {
      if (!shade) chart.over.append((shade = element("div", "", { class: "box" })));
      shade.hidden = !a || done;
      if (!a) return;
      const [from, to] = [Math.max(0, Math.min(a.x, b.x)), Math.min(1, Math.max(a.x, b.x))];
      Object.assign(shade.style, { left: from * 100 + "%", width: (to - from) * 100 + "%", top: "0", height: "100%" });
      if (done) show(view.x0 + from * (view.x1 - view.x0), view.x0 + to * (view.x1 - view.x0));
    },
  });
}

// tick prints bytes on an axis, with no more digits than they need.
function tick(n) {
  return short(n).replace(/\.?0+ (?=[KMGTPE]iB)/, " ");
}

const stepAt = (x) => Math.max(0, Math.min(steps.count - 1, Math.floor(view.x0 + x * (view.x1 - view.x0))));

function band(u, first, last, colour) {
  const x0 = u.valToPos(Math.max(first, view.x0), "x", true), x1 = u.valToPos(Math.min(last + 1, view.x1), "x", true);
  if (x1 < u.bbox.left || x0 > u.bbox.left + u.bbox.width || x1 < x0) return;
  u.ctx.fillStyle = colour;
  u.ctx.fillRect(x0, u.bbox.top, Math.max(1.5, x1 - x0), u.bbox.height);
}

// underChart marks lifetimes, overChart places, so that the curves stay clear.
function underChart(u) {
  u.ctx.save();
  if (view.picked >= 0 && counted(view.picked)) band(u, buffers.first[view.picked], buffers.last[view.picked], colours.mark + "30");
  if (view.pickedStep >= 0) band(u, view.pickedStep, view.pickedStep, colours.mark + "60");
  if (view.matches) {
    const shown = [...view.matches].filter(counted).slice(0, 200);
    const strength = Math.max(6, Math.round(40 / Math.max(1, shown.length))).toString(16).padStart(2, "0");
    for (const b of shown) band(u, buffers.first[b], buffers.last[b], colours.mark + strength);
    for (const i of view.matchedSteps.slice(0, 2000)) band(u, i, i, colours.mark + "30");
  }
  u.ctx.restore();
}

function overChart(u) {
  const ctx = u.ctx, ratio = devicePixelRatio || 1;
  ctx.save();
  ctx.beginPath();
  ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
  ctx.clip();
  const dot = (step, load, colour) => {
    ctx.fillStyle = colour;
    ctx.strokeStyle = colours.card;
    ctx.lineWidth = 1.5 * ratio;
    ctx.beginPath();
    ctx.arc(u.valToPos(step + 0.5, "x", true), u.valToPos(load, "y", true), 4 * ratio, 0, 7);
    ctx.fill();
    ctx.stroke();
  };
  if (steps.count && peak.step >= view.x0 - 1 && peak.step <= view.x1) dot(peak.step, peak.bytes, colours.planned);
  if (view.pickedStep >= 0 && !program.same && program.at[view.pickedStep] >= 0) {
    dot(program.at[view.pickedStep], program.load[program.at[view.pickedStep]], colours.program);
  }
  if (view.step >= 0) {
    const x = Math.round(u.valToPos(view.step + 0.5, "x", true));
    ctx.fillStyle = colours.muted;
    ctx.fillRect(x, u.bbox.top, Math.max(1, ratio), u.bbox.height);
  }
  ctx.restore();
}

function drawChart() {
  if (!chart) return;
  chart.batch(() => {
    chart.setData(seen(), false);
    chart.setScale("x", { min: view.x0, max: view.x1 });
    chart.setScale("y", { min: 0, max: highest() });
  });
  chart.redraw(false, true);
}

// readout says what the step under the cursor is in both orders.
function readout() {
  const step = view.step >= 0 ? view.step : peak.step;
  if (!steps.count) return;
  const parts = [element("span", (view.step >= 0 ? "Step " : "The peak, step ") + step, { class: "where" })];
  const part = (name, text, load) => {
    const e = element("span", "", { class: "part" });
    e.append(element("i", "", { class: "key " + name }), element("b", short(load)), " ", element("bdi", text));
    parts.push(e);
  };
  part("planned", node(step), steps.load[step]);
  if (!program.same && step < program.steps.length) part("program", node(program.steps[step]), program.load[step]);
  byID("at").replaceChildren(...parts);
}

function makeKeys() {
  const key = (name, text) => {
    const li = element("li", "");
    li.append(element("i", "", { class: "key " + name }), text);
    return li;
  };
  byID("series").replaceChildren(
    key("program", "program order" + (program.same ? " (the same)" : "")), key("planned", "planned order"), key("bound", "lower bound"));
}
