// view.js: what part of the plan is shown and what is marked; the pictures draw
// from here and follow its changes.

const whole = { x0: 0, x1: Math.max(1, steps.count), y0: 0, y1: 1 };

const view = {
  x0: whole.x0, x1: whole.x1, // steps; step i is [i, i + 1)
  y0: 0, y1: 1, // bytes of the pool
  pool: 0,
  step: -1, // under the cursor
  buffer: -1, // under the cursor
  picked: -1, // buffer
  pickedStep: -1, // node
  matches: null, // Set of buffers, or nothing is looked for
  matchedSteps: [],
};

const least = { x: 4, y: 64 }; // the narrowest view: steps, bytes

// The margins of both pictures, in pixels, so that steps stand above each other.
const margin = { left: 76, right: 24 };

const followers = [];
let waiting = 0;

// drawAll draws both pictures now.
function drawAll() {
  waiting = 0;
  for (const draw of followers) draw();
}

// changed draws with the next frame; many changes make one.
function changed() {
  if (!waiting) waiting = requestAnimationFrame(drawAll);
}

function within(from, to, least, end) {
  let size = Math.min(end, Math.max(least, to - from));
  from = Math.min(Math.max(0, from), end - size);
  return [from, from + size];
}

// show moves the view, kept within the plan.
function show(x0, x1, y0 = view.y0, y1 = view.y1) {
  [view.x0, view.x1] = within(x0, x1, Math.min(least.x, whole.x1), whole.x1);
  [view.y0, view.y1] = within(y0, y1, Math.min(least.y, whole.y1), whole.y1);
  changed();
}

const showAll = () => show(0, whole.x1, 0, whole.y1);

// zoom scales the view around a point of it, given as fractions.
function zoom(factor, atX = 0.5, atY = -1) {
  const x = view.x0 + (view.x1 - view.x0) * atX, y = view.y0 + (view.y1 - view.y0) * atY;
  const y0 = atY < 0 ? view.y0 : y - (y - view.y0) * factor;
  const y1 = atY < 0 ? view.y1 : y + (view.y1 - y) * factor;
  show(x - (x - view.x0) * factor, x + (view.x1 - x) * factor, y0, y1);
}

// pan moves by fractions of the view.
function pan(dx, dy = 0) {
  const w = (view.x1 - view.x0) * dx, h = (view.y1 - view.y0) * dy;
  show(view.x0 + w, view.x1 + w, view.y0 + h, view.y1 + h);
}

// reveal moves the view so that steps, and bytes, come into sight.
function reveal(first, last, from, to) {
  let { x0, x1, y0, y1 } = view;
  if (first < x0 || last + 1 > x1) {
    const size = Math.max(x1 - x0, (last + 1 - first) * 1.2), middle = (first + last + 1) / 2;
    [x0, x1] = [middle - size / 2, middle + size / 2];
  }
  if (from !== undefined && (from < y0 || to > y1)) {
    const size = Math.max(y1 - y0, (to - from) * 1.2), middle = (from + to) / 2;
    [y0, y1] = [middle - size / 2, middle + size / 2];
  }
  show(x0, x1, y0, y1);
}

// choosePool shows another pool in the map.
function choosePool(i) {
  view.pool = i;
  whole.y1 = Math.max(1, pools[i] ? pools[i].bytes : 1);
  show(view.x0, view.x1, 0, whole.y1);
}

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
let colours = {};

// readColours takes the theme's colours from the style sheet.
function readColours() {
  const lightness = css("--shades").split(" ");
  colours = { kinds: {} };
  for (const name of ["fg", "muted", "grid", "card", "planned", "program", "bound", "mark"]) colours[name] = css("--" + name);
  for (const kind of kinds) colours.kinds[kind] = lightness.map((l) => "hsl(" + css("--" + kind) + " " + l + ")");
  colours.pixels = {};
  for (const kind of kinds) colours.pixels[kind] = colours.kinds[kind].map(pixelOf);
  colours.gridPixel = pixelOf(colours.grid);
}

// pixelOf is a colour as a canvas holds it, four bytes in one number.
function pixelOf(colour) {
  const ctx = element("canvas", "", { width: 1, height: 1 }).getContext("2d");
  ctx.fillStyle = colour;
  ctx.fillRect(0, 0, 1, 1);
  return new Uint32Array(ctx.getImageData(0, 0, 1, 1).data.buffer)[0];
}

// gestures gives a picture its mouse, touch and wheel: box tells what is dragged
// over (with or without heights), hover and click what is pointed at, in
// fractions of the plot.
function gestures(over, { vertical, box, hover, click }) {
  let drag = null;
  const fingers = new Map();
  const place = (e) => {
    const r = over.getBoundingClientRect();
    return { x: (e.clientX - r.left) / r.width, y: 1 - (e.clientY - r.top) / r.height };
  };
  over.addEventListener("pointerdown", (e) => {
    if (e.button > 1) return;
    over.setPointerCapture(e.pointerId);
    const at = place(e);
    fingers.set(e.pointerId, at);
    const pans = e.shiftKey || e.button === 1 || e.pointerType === "touch";
    drag = { from: at, last: at, pans, moved: false, x: e.clientX, y: e.clientY };
    if (e.button === 1) e.preventDefault();
  });
  over.addEventListener("pointermove", (e) => {
    const at = place(e);
    if (fingers.size === 2 && fingers.has(e.pointerId)) {
      const gap = () => {
        const [a, b] = [...fingers.values()];
        return Math.max(0.02, Math.abs(a.x - b.x));
      };
      const before = gap();
      fingers.set(e.pointerId, at);
      const [a, b] = [...fingers.values()];
      zoom(before / gap(), (a.x + b.x) / 2);
      if (drag) drag.moved = true;
      return;
    }
    if (drag) {
      fingers.set(e.pointerId, at);
      drag.moved = drag.moved || Math.hypot(e.clientX - drag.x, e.clientY - drag.y) > 4;
      if (drag.moved && drag.pans) pan(drag.last.x - at.x, vertical ? drag.last.y - at.y : 0);
      drag.last = at;
      if (drag.moved && !drag.pans) box(drag.from, at, false);
    } else {
      hover(at, e);
    }
  });
  const end = (e) => {
    fingers.delete(e.pointerId);
    if (!drag) return;
    const d = drag;
    drag = null;
    if (e.type === "pointercancel") box(null);
    else if (!d.moved) click(place(e), e);
    else if (!d.pans) box(d.from, d.last, true);
  };
  over.addEventListener("pointerup", end);
  over.addEventListener("pointercancel", end);
  over.addEventListener("pointerleave", () => drag || hover(null));
  over.addEventListener("dblclick", showAll);
  over.addEventListener("wheel", (e) => {
    const scale = e.deltaMode === 1 ? 30 : 1;
    const sideways = Math.abs(e.deltaX) > Math.abs(e.deltaY) ? e.deltaX : e.shiftKey ? e.deltaY : 0;
    if (e.ctrlKey || e.metaKey) {
      const at = place(e);
      zoom(Math.exp(Math.max(-1, Math.min(1, e.deltaY * scale * 0.004))), at.x, vertical && e.altKey ? at.y : -1);
    } else if (sideways) {
      pan(sideways * scale * 0.001);
    } else {
      return; // the page scrolls
    }
    e.preventDefault();
  }, { passive: false });
}

// select marks a buffer, brings it into sight and tells about it.
function select(b) {
  view.picked = b;
  view.pickedStep = -1;
  if (b >= 0) {
    const drawn = pools[buffers.pool[b]].name !== "resident"; // what always lives is in no picture
    if (drawn && buffers.pool[b] !== view.pool) {
      byID("pool").value = buffers.pool[b];
      choosePool(buffers.pool[b]);
    }
    if (drawn) reveal(buffers.first[b], buffers.last[b], buffers.offset[b], buffers.offset[b] + buffers.bytes[b]);
  }
  tell();
  changed();
}

// selectStep marks a node.
function selectStep(step) {
  view.picked = -1;
  view.pickedStep = step;
  if (step >= 0) reveal(step, step);
  moveTo(step);
  tell();
  changed();
}

// moveTo puts the cursor on a step.
function moveTo(step) {
  view.step = step;
  readout();
  changed();
}
