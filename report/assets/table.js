// table.js: what is live at a step, the peak's by default, as a table that sorts.

const table = { step: peak.step, rows: [], by: "Size", down: true, most: 200 };

const columns = [
  { name: "Tensors", of: (b) => called(b, 4) },
  { name: "Kind", of: (b) => kindOf(b) },
  { name: "Size", number: true, of: (b) => buffers.bytes[b], text: (b) => exact(buffers.bytes[b]) },
  { name: "Share", number: true, of: (b) => buffers.bytes[b], text: (b) => ((100 * buffers.bytes[b]) / Math.max(1, table.load)).toFixed(1) + " %" },
  { name: "Steps", number: true, of: (b) => buffers.first[b], text: (b) => buffers.first[b] + "–" + buffers.last[b] },
  { name: "Made by", of: maker },
  { name: "Last read by", of: reader },
  { name: "Offset", number: true, of: (b) => buffers.offset[b], text: (b) => grouped(buffers.offset[b]) },
];

function makeTable() {
  const tr = element("tr", "");
  for (const c of columns) {
    const th = element("th", "", { scope: "col" });
    const button = element("button", c.name, { type: "button" });
    button.addEventListener("click", () => {
      table.down = table.by === c.name ? !table.down : !!c.number;
      table.by = c.name;
      fillTable();
    });
    th.append(button);
    if (c.number) th.className = "number";
    tr.append(th);
  }
  byID("live").tHead.replaceChildren(tr);
  byID("more").addEventListener("click", () => {
    table.most = Infinity;
    fillTable();
  });
  byID("back").addEventListener("click", () => tableAt(peak.step));
  tableAt(peak.step);
}

// tableAt shows what is live at a step.
function tableAt(step) {
  if (step < 0 || (step >= steps.count && steps.count)) return;
  table.step = step;
  table.most = 200;
  table.rows = live(step);
  table.load = table.rows.reduce((sum, b) => sum + buffers.bytes[b], 0);
  const peaks = step === peak.step;
  byID("live-title").textContent = (peaks ? "Live at the peak" : "Live at step " + step) + ": " + grouped(table.rows.length) + " buffers, " + short(table.load);
  byID("back").hidden = peaks;
  const note = byID("live-note");
  if (note) note.replaceChildren((peaks ? "The peak is at step " : "Step ") + step + ", ", element("bdi", node(step)), ". A click on a picture shows another step; one on a row shows the buffer.");
  fillTable();
}

function fillTable() {
  const column = columns.find((c) => c.name === table.by), sign = table.down ? -1 : 1;
  const keys = new Map(table.rows.map((b) => [b, column.of(b)]));
  const less = column.number ? (a, b) => keys.get(a) - keys.get(b) : (a, b) => keys.get(a).localeCompare(keys.get(b), "en", { numeric: true });
  table.rows.sort((a, b) => sign * less(a, b) || a - b);
  byID("live").tHead.querySelectorAll("th").forEach((th, i) => {
    const sorted = columns[i].name === table.by;
    th.setAttribute("aria-sort", sorted ? (table.down ? "descending" : "ascending") : "none");
  });
  const shown = table.rows.slice(0, table.most);
  byID("live").tBodies[0].replaceChildren(...shown.map(row));
  const more = byID("more");
  more.hidden = shown.length === table.rows.length;
  more.textContent = "Show all " + grouped(table.rows.length);
}

function row(b) {
  const tr = element("tr", "", { tabindex: "0", "data-buffer": b });
  for (const c of columns) {
    const td = element("td", "");
    if (c.number) td.className = "number";
    if (c.name === "Kind") td.append(element("i", "", { class: "key k-" + kindOf(b) }));
    td.append(element("bdi", c.text ? c.text(b) : c.of(b)));
    tr.append(td);
  }
  const pick = () => {
    select(b);
    byID("map").scrollIntoView({ block: "center", behavior: "smooth" });
  };
  tr.addEventListener("click", pick);
  tr.addEventListener("keydown", (e) => {
    if (e.key === "Enter") pick();
  });
  return tr;
}
