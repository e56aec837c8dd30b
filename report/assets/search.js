// search.js: finds tensors and nodes by a part of their names, marks all of them
// in both pictures, and lists the first.

const found = { list: [], at: -1 };
const mostListed = 50;

const folded = {
  tensors: buffers.tensors.map((names) => names.join("\n").toLowerCase()),
  steps: steps.name.map((name) => name.toLowerCase()),
};

function search(text) {
  text = text.trim().toLowerCase();
  found.list = [];
  found.at = -1;
  const resident = [];
  view.matches = text ? new Set() : null;
  view.matchedSteps = [];
  if (text) {
    for (let b = 0; b < buffers.count; b++) {
      if (!folded.tensors[b].includes(text)) continue;
      view.matches.add(b);
      const into = counted(b) ? found.list : resident;
      if (into.length < mostListed) {
        const name = buffers.tensors[b].find((t) => t.toLowerCase().includes(text));
        into.push({ buffer: b, name, note: kindOf(b) + ", " + short(buffers.bytes[b]) });
      }
    }
    for (let i = 0; i < steps.count; i++) {
      if (!folded.steps[i].includes(text)) continue;
      view.matchedSteps.push(i);
      if (found.list.length < 2 * mostListed) found.list.push({ step: i, name: steps.name[i], note: steps.op[i] + ", step " + i });
    }
    // What is called so comes before what is called almost so, what is in no
    // picture comes last.
    const rank = (f) => (f.name.toLowerCase() === text ? 0 : f.name.toLowerCase().startsWith(text) ? 1 : 2);
    found.list.sort((a, b) => rank(a) - rank(b));
    found.list.push(...resident.sort((a, b) => rank(a) - rank(b)));
  }
  byID("count").textContent = !text ? "" : grouped(view.matches.size) + " buffers, " + grouped(view.matchedSteps.length) + " nodes";
  listFound();
  changed();
}

function listFound() {
  const ul = byID("found");
  ul.replaceChildren(...found.list.map((f, i) => {
    const li = element("li", "", { role: "option", id: "found-" + i, "aria-selected": String(i === found.at) });
    li.append(element("bdi", f.name), element("span", f.note, { class: "note" }));
    li.addEventListener("mousedown", (e) => {
      e.preventDefault();
      take(i);
    });
    return li;
  }));
  ul.hidden = found.list.length === 0;
  byID("find").setAttribute("aria-expanded", String(!ul.hidden));
}

function step(by) {
  if (!found.list.length) return;
  found.at = (found.at + by + found.list.length) % found.list.length;
  byID("found").querySelectorAll("li").forEach((li, i) => li.setAttribute("aria-selected", String(i === found.at)));
  byID("find").setAttribute("aria-activedescendant", "found-" + found.at);
  byID("found-" + found.at).scrollIntoView({ block: "nearest" });
}

// take shows one of what was found.
function take(i) {
  const f = found.list[i];
  if (!f) return;
  if (f.buffer !== undefined) select(f.buffer);
  else selectStep(f.step);
  closeFound();
}

function closeFound() {
  byID("found").hidden = true;
  byID("find").setAttribute("aria-expanded", "false");
}

function makeSearch() {
  const input = byID("find");
  input.addEventListener("input", () => search(input.value));
  input.addEventListener("focus", () => listFound());
  input.addEventListener("blur", closeFound);
  input.addEventListener("keydown", (e) => {
    if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      step(e.key === "ArrowDown" ? 1 : -1);
    } else if (e.key === "Enter") {
      take(Math.max(0, found.at));
    } else if (e.key === "Escape") {
      if (byID("found").hidden) clear();
      else closeFound();
    } else {
      return;
    }
    e.preventDefault();
    e.stopPropagation();
  });
}

// clear takes all marks away.
function clear() {
  byID("find").value = "";
  view.picked = view.pickedStep = view.buffer = view.step = -1;
  byID("tip").hidden = true;
  search("");
  tell();
  readout();
}
