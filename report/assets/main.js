// main.js: puts the page together; keys, themes and sizes.

function refresh() {
  readColours();
  makeChart();
  resizeMap();
  changed();
}

// neighbour moves among the buffers of a step by their offsets.
function neighbour(by) {
  const at = view.step >= 0 ? view.step : peak.step;
  const stack = live(at).filter((b) => buffers.pool[b] === view.pool).sort((a, b) => buffers.offset[a] - buffers.offset[b]);
  if (!stack.length) return;
  const i = stack.indexOf(view.picked);
  const b = stack[i < 0 ? (by > 0 ? 0 : stack.length - 1) : Math.max(0, Math.min(stack.length - 1, i + by))];
  view.step = at;
  select(b);
  moveTo(at);
}

function walk(by) {
  const at = Math.max(0, Math.min(steps.count - 1, (view.step >= 0 ? view.step : peak.step) + by));
  reveal(at, at);
  moveTo(at);
}

function toPeak() {
  const size = Math.min(whole.x1, Math.max(24, whole.x1 / 20));
  show(peak.step + 0.5 - size / 2, peak.step + 0.5 + size / 2, 0, whole.y1);
  moveTo(peak.step);
}

const keys = {
  "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1 / 0.7), "0": showAll, p: toPeak,
  Escape: clear,
  "/": () => byID("find").focus(),
};
const plotKeys = {
  ArrowLeft: (e) => (e.shiftKey ? pan(-0.2) : walk(-1)),
  ArrowRight: (e) => (e.shiftKey ? pan(0.2) : walk(1)),
  ArrowUp: (e) => (e.shiftKey ? pan(0, 0.2) : neighbour(1)),
  ArrowDown: (e) => (e.shiftKey ? pan(0, -0.2) : neighbour(-1)),
  PageUp: () => pan(-0.9), PageDown: () => pan(0.9),
  Home: () => walk(-steps.count), End: () => walk(steps.count),
  Enter: () => (view.step >= 0 ? tableAt(view.step) : tableAt(peak.step)),
};

function makeKeyboard() {
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
    const plot = e.target.id === "load" || e.target.id === "map";
    const act = (plot && plotKeys[e.key]) || keys[e.key];
    if (!act || !steps.count) return;
    act(e);
    e.preventDefault();
  });
  byID("in").addEventListener("click", () => zoom(0.7));
  byID("out").addEventListener("click", () => zoom(1 / 0.7));
  byID("all").addEventListener("click", showAll);
  byID("topeak").addEventListener("click", toPeak);
}

const themes = ["system", "light", "dark"];

function setTheme(name) {
  const root = document.documentElement;
  if (name === "system") delete root.dataset.theme;
  else root.dataset.theme = name;
  byID("theme").textContent = "Theme: " + name;
  recolour();
}

// recolour draws what is there in the theme's colours.
function recolour() {
  readColours();
  map.drawn = "";
  drawAll();
}

function makeThemes() {
  let at = 0;
  byID("theme").addEventListener("click", () => setTheme(themes[(at = (at + 1) % themes.length)]));
  // Paper counts as light, but what is drawn while the page goes there is lost.
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => matchMedia("print").matches || recolour());
}

readColours();
makeKeys();
makeMap();
makePools();
makeKinds();
makeTable();
makeSearch();
makeKeyboard();
makeThemes();
followers.push(drawChart, drawMap);
refresh();
readout();
drawAll();
new ResizeObserver(() => {
  const w = byID("load").clientWidth;
  const resized = chart && (w !== chart.width || byID("load").clientHeight !== chart.height);
  if (resized && !matchMedia("print").matches) refresh();
}).observe(byID("load"));
addEventListener("scroll", () => (byID("tip").hidden = true), { passive: true });

// For whoever drives the page: the view, and drawing at once.
window.onnxmem = { view, show, showAll, drawAll, select, bufferAt, mapX, mapY, buffers, steps, exact, drawChart, drawMap, chart: () => chart };
