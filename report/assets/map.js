// map.js: the pool as a map. Steps lie to the right, offsets upwards, a buffer is
// a rectangle. The lower canvas holds the buffers and is drawn when the view
// changes; the upper one holds what follows the cursor.

const map = { under: null, over: null, width: 0, height: 0, ratio: 1, drawn: "" };
const foot = 24, roof = 8; // pixels below and above the plot

function makeMap() {
  const host = byID("map");
  [map.under, map.over] = host.querySelectorAll("canvas");
  let shade = null;
  const area = element("div", "", { class: "over" });
  Object.assign(area.style, { left: margin.left + "px", right: margin.right + "px", top: roof + "px", bottom: foot + "px" });
  host.append(area);
  gestures(area, {
    vertical: true,
    hover: (at, e) => hoverMap(at, e),
    click: (at) => {
      const b = bufferAt(at);
      select(b === view.picked ? -1 : b);
      if (b < 0) tableAt(stepAt(at.x));
    },
    box: (a, b, done) => {
      if (!shade) area.append((shade = element("div", "", { class: "box" })));
      shade.hidden = !a || done;
      if (!a) return;
      const clamp = (v) => Math.max(0, Math.min(1, v));
      const x0 = clamp(Math.min(a.x, b.x)), x1 = clamp(Math.max(a.x, b.x));
      const y0 = clamp(Math.min(a.y, b.y)), y1 = clamp(Math.max(a.y, b.y));
      Object.assign(shade.style, { left: x0 * 100 + "%", width: (x1 - x0) * 100 + "%", bottom: y0 * 100 + "%", height: (y1 - y0) * 100 + "%" });
      const w = view.x1 - view.x0, h = view.y1 - view.y0;
      if (done) show(view.x0 + x0 * w, view.x0 + x1 * w, view.y0 + y0 * h, view.y0 + y1 * h);
    },
  });
}

// bufferAt finds the buffer at a point given in fractions of the plot.
function bufferAt(at) {
  const step = Math.floor(view.x0 + at.x * (view.x1 - view.x0)), offset = view.y0 + at.y * (view.y1 - view.y0);
  const slack = (view.y1 - view.y0) / map.height; // a pixel: thin buffers can be hit
  let near = -1;
  for (let b = 0; b < buffers.count && buffers.first[b] <= step; b++) {
    if (buffers.last[b] < step || buffers.pool[b] !== view.pool || !buffers.bytes[b]) continue;
    const from = buffers.offset[b], to = from + buffers.bytes[b];
    if (from <= offset && offset < to) return b;
    if (from - slack <= offset && offset <= to + slack) near = b;
  }
  return near;
}

function hoverMap(at, e) {
  const tip = byID("tip");
  view.buffer = at ? bufferAt(at) : -1;
  moveTo(at ? stepAt(at.x) : -1);
  tip.hidden = view.buffer < 0;
  if (tip.hidden) return;
  tip.replaceChildren(facts(view.buffer));
  const w = tip.offsetWidth, h = tip.offsetHeight;
  tip.style.left = Math.max(8, Math.min(e.clientX + 16, innerWidth - w - 8)) + "px";
  tip.style.top = (e.clientY + h + 24 > innerHeight ? Math.max(8, e.clientY - h - 12) : e.clientY + 16) + "px";
}

// facts lists what is said of a buffer.
function facts(b) {
  const dl = element("dl", "");
  for (const [name, value] of described(b)) {
    const dd = element("dd");
    dd.append(element("bdi", value));
    dl.append(element("dt", name), dd);
  }
  return dl;
}

// tell shows the picked buffer, or node, below the map.
function tell() {
  const out = byID("picked");
  if (view.picked >= 0) {
    out.replaceChildren(...facts(view.picked).childNodes);
  } else if (view.pickedStep >= 0) {
    const pairs = [["Node", node(view.pickedStep)], ["Step", view.pickedStep + (program.at[view.pickedStep] >= 0 ? ", in program order " + program.at[view.pickedStep] : "")], ["Load", exact(steps.load[view.pickedStep])]];
    out.replaceChildren(...pairs.flatMap(([name, value]) => [element("dt", name), element("dd", value)]));
  } else {
    out.replaceChildren();
  }
}

function resizeMap() {
  const host = byID("map");
  map.ratio = devicePixelRatio || 1;
  map.width = Math.max(1, host.clientWidth - margin.left - margin.right);
  map.height = Math.max(1, host.clientHeight - foot - roof);
  for (const canvas of [map.under, map.over]) {
    canvas.width = Math.round(host.clientWidth * map.ratio);
    canvas.height = Math.round(host.clientHeight * map.ratio);
  }
  map.drawn = "";
}

const mapX = (step) => margin.left + ((step - view.x0) / (view.x1 - view.x0)) * map.width;
const mapY = (bytes) => roof + (1 - (bytes - view.y0) / (view.y1 - view.y0)) * map.height;

function drawMap() {
  const seen = [view.x0, view.x1, view.y0, view.y1, view.pool, map.width, map.height].join();
  if (seen !== map.drawn) {
    map.drawn = seen;
    drawBuffers();
  }
  drawMarks();
}

// box gives a buffer's rectangle in pixels, cut to the plot, at least as large as
// can be seen; null outside.
function box(b) {
  const x0 = Math.max(mapX(buffers.first[b]), margin.left), x1 = Math.min(mapX(buffers.last[b] + 1), margin.left + map.width);
  const y0 = Math.max(mapY(buffers.offset[b] + buffers.bytes[b]), roof), y1 = Math.min(mapY(buffers.offset[b]), roof + map.height);
  if (x1 <= x0 || y1 <= y0) return null;
  return [x0, y0, Math.max(x1 - x0, 1), Math.max(y1 - y0, 1)];
}

// drawBuffers writes the pixels of the plot itself: 50,000 rectangles that are
// filled one by one take a canvas without a graphics card over 100 ms, this 10.
function drawBuffers() {
  const ctx = map.under.getContext("2d"), ratio = map.ratio;
  const left = Math.round(margin.left * ratio), top = Math.round(roof * ratio);
  const width = Math.max(1, Math.round(map.width * ratio)), height = Math.max(1, Math.round(map.height * ratio));
  if (!map.image || map.image.width !== width || map.image.height !== height) map.image = ctx.createImageData(width, height);
  const pixels = new Uint32Array(map.image.data.buffer);
  pixels.fill(0);
  ctx.setTransform(1, 0, 0, 1, 0, 0);
  ctx.clearRect(0, 0, map.under.width, map.under.height);
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  drawAxes(ctx, (x, y, w, h) => paint(pixels, width, height, (x - margin.left) * ratio, (y - roof) * ratio, w, h, colours.gridPixel));
  const sx = width / (view.x1 - view.x0), sy = height / (view.y1 - view.y0);
  const shades = kinds.map((kind) => colours.pixels[kind]);
  const named = [];
  for (let b = 0; b < buffers.count; b++) {
    if (buffers.first[b] >= view.x1) break;
    if (buffers.last[b] + 1 <= view.x0 || buffers.pool[b] !== view.pool || !buffers.bytes[b]) continue;
    const low = buffers.offset[b], high = low + buffers.bytes[b];
    if (low >= view.y1 || high <= view.y0) continue;
    const x = Math.round((buffers.first[b] - view.x0) * sx), y = Math.round((view.y1 - high) * sy);
    let w = Math.max(1, Math.round((buffers.last[b] + 1 - view.x0) * sx) - x), h = Math.max(1, Math.round((view.y1 - low) * sy) - y);
    if (w > 46 * ratio && h > 13 * ratio) named.push(b);
    if (w > 4 && h > 4) { // a gap between neighbours
      w--;
      h--;
    }
    // Three shades of each kind, so that neighbours differ.
    paint(pixels, width, height, x, y, w, h, shades[buffers.kind[b]][b % 3]);
  }
  ctx.putImageData(map.image, left, top);
  drawNames(ctx, named.slice(0, 1500).map((b) => [b, box(b)]));
}

// paint fills a rectangle of pixels, cut to the plot.
function paint(pixels, width, height, x, y, w, h, colour) {
  const x0 = Math.max(0, Math.round(x)), x1 = Math.min(width, Math.round(x + w));
  const y0 = Math.max(0, Math.round(y)), y1 = Math.min(height, Math.round(y + h));
  if (x1 <= x0) return;
  for (let row = y0; row < y1; row++) pixels.fill(colour, row * width + x0, row * width + x1);
}

function drawNames(ctx, named) {
  ctx.font = "11px system-ui, sans-serif";
  ctx.textBaseline = "middle";
  ctx.textAlign = "center";
  ctx.fillStyle = css("--on-kind");
  const letter = ctx.measureText("n").width;
  for (const [b, [x, y, w, h]] of named.filter(([, r]) => r)) {
    let name = called(b, 1).replace(/ and \d+ more$/, "");
    const room = Math.floor((w - 10) / letter);
    if (name.length > room) name = room > 4 ? name.slice(0, room - 1) + "…" : "";
    if (name) ctx.fillText(name, x + w / 2, y + h / 2 + 0.5, w - 6);
  }
}

// drawAxes writes the numbers, and has the lines drawn by line.
function drawAxes(ctx, line) {
  ctx.font = "11px system-ui, sans-serif";
  ctx.textBaseline = "middle";
  ctx.textAlign = "right";
  const span = view.y1 - view.y0;
  const unit = marks.find((m) => (m / span) * map.height >= 36) || marks[marks.length - 1];
  for (let y = Math.ceil(view.y0 / unit) * unit; y <= view.y1; y += unit) {
    line(margin.left, mapY(y), map.width * map.ratio, 1);
    ctx.fillStyle = colours.muted;
    ctx.fillText(tick(y), margin.left - 6, mapY(y));
  }
  ctx.textAlign = "center";
  const wide = [1, 2, 5].flatMap((d) => Array.from({ length: 8 }, (_, i) => d * 10 ** i)).sort((a, b) => a - b);
  const gap = wide.find((s) => (s / (view.x1 - view.x0)) * map.width >= 60) || 1e8;
  for (let x = Math.ceil(view.x0 / gap) * gap; x <= view.x1; x += gap) {
    line(mapX(x), roof, 1, map.height * map.ratio);
    ctx.fillStyle = colours.muted;
    ctx.fillText(String(x), mapX(x), roof + map.height + 14);
  }
}

function drawMarks() {
  const ctx = map.over.getContext("2d");
  ctx.setTransform(map.ratio, 0, 0, map.ratio, 0, 0);
  ctx.clearRect(0, 0, map.over.width, map.over.height);
  ctx.save();
  ctx.beginPath();
  ctx.rect(margin.left, roof, map.width, map.height);
  ctx.clip();
  const column = (step, colour) => {
    ctx.fillStyle = colour;
    ctx.fillRect(mapX(step), roof, Math.max(1.5, mapX(step + 1) - mapX(step)), map.height);
  };
  if (view.matches) drawMatches(ctx, column);
  if (view.pickedStep >= 0) column(view.pickedStep, colours.mark + "60");
  const outline = (b, colour, width) => {
    const r = b >= 0 && buffers.pool[b] === view.pool ? box(b) : null;
    if (!r) return;
    ctx.strokeStyle = colour;
    ctx.lineWidth = width;
    ctx.strokeRect(r[0], r[1], r[2], r[3]);
  };
  if (view.step >= 0) {
    ctx.fillStyle = colours.muted;
    ctx.fillRect(Math.round(mapX(view.step + 0.5)), roof, 1, map.height);
  }
  outline(view.buffer, colours.fg, 1.5);
  if (view.picked >= 0) {
    outline(view.picked, colours.card, 5);
    outline(view.picked, colours.mark, 2.5);
  }
  ctx.restore();
}

// drawMatches veils all but what is looked for.
function drawMatches(ctx, column) {
  ctx.fillStyle = colours.card + "b8";
  ctx.fillRect(margin.left, roof, map.width, map.height);
  for (const step of view.matchedSteps.slice(0, 2000)) column(step, colours.mark + "28");
  for (const b of view.matches) {
    const r = buffers.pool[b] === view.pool ? box(b) : null;
    if (!r) continue;
    ctx.fillStyle = colours.kinds[kindOf(b)][b % 3];
    ctx.fillRect(...r);
    if (r[2] < 2 || r[3] < 2 || view.matches.size <= 200) {
      ctx.strokeStyle = colours.mark;
      ctx.lineWidth = 1.5;
      ctx.strokeRect(...r);
    }
  }
}

function makeKinds() {
  const present = kinds.filter((_, k) => buffers.kind.some((kind, b) => kind === k && buffers.pool[b] === view.pool && buffers.bytes[b]));
  byID("kinds").replaceChildren(...present.map((kind) => {
    const li = element("li", "");
    li.append(element("i", "", { class: "key k-" + kind }), kind);
    return li;
  }));
}

function makePools() {
  const used = pools.map((_, i) => i).filter((i) => pools[i].name !== "resident" && buffers.pool.includes(i));
  const pick = byID("pool");
  pick.replaceChildren(...used.map((i) => element("option", pools[i].name + ", " + short(pools[i].bytes), { value: i })));
  byID("poolpick").hidden = used.length < 2;
  pick.addEventListener("change", () => {
    choosePool(+pick.value);
    makeKinds();
  });
  const arena = pools.findIndex((pool) => pool.name === "arena");
  choosePool(Math.max(0, arena));
  pick.value = view.pool;
}
