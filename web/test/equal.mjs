// equal.mjs compares the package's figures and files with the command's, on a dozen models of
// the zoo: `make web-test`. Its arguments are the command and the folder of test data.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

const [command, data] = process.argv.slice(2);
if (!data) {
  console.log("ONNXMEM_DATA names no test data: nothing is compared");
  process.exit(0);
}
const { optimize, inspect, explain, order, pack, OnnxmemError } = await import(join(process.cwd(), "build/npm/index.js"));
let failed = 0;
const check = (ok, what) => { if (!ok) { failed++; console.log(`FAILED: ${what}`); } };
const dir = mkdtempSync(join(tmpdir(), "onnxmem-web-"));
const run = (...args) => {
  try {
    return { out: execFileSync(command, args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], maxBuffer: 1 << 28, cwd: dir }), status: 0 };
  } catch (e) {
    return { out: e.stdout, err: e.stderr, status: e.status };
  }
};

const dims = { dim: { batch: 2 } };
const cases = [
  ["squeezenet1_1-b1-inline", {}], ["resnet50-dyn", dims], ["mobilenet_v3_large-dyn", {}], ["densenet121-b1", {}], ["bert_base-b1", {}],
  ["unet-dyn", {}], ["vit_b_16-b1", {}], ["greedy_gru-script", {}], ["sparse_mlp-dyn", {}], ["transformer_functions-dyn", {}],
  ["bert_base-contrib-b1", {}], ["gpt2_past-dyn", {}],
  ["alexnet-dyn", { train: true, ...dims }], ["resnet50-dyn", { train: true, optimizer: "adamw", limit: "70%", effort: "fast", dim: { batch: 8 } }], ["bert_base-dyn", { dim: { batch: "1..4", sequence: 32 } }],
].filter(([name]) => existsSync(join(data, "zoo", `${name}.onnx`)));
const flags = (o) => Object.entries(o).flatMap(([k, v]) => v === true ? [`--${k}`] : typeof v === "object" ? Object.entries(v).map(([n, x]) => `--${k}=${n}=${x}`) : [`--${k}=${v}`]);

for (const [name, options] of cases) {
  const path = join(data, "zoo", `${name}.onnx`);
  const began = performance.now();
  const native = run("optimize", path, `${name}.onnx`, "--allow-missing-weights", "--json", ...flags(options));
  const took = performance.now() - began;
  if (native.status) { check(false, `${name}: the command fails: ${native.err}`); continue; }
  const start = performance.now();
  const r = await optimize(readFileSync(path), { name: basename(path), out: `${name}.onnx`, allowMissingWeights: true, ...options });
  const here = performance.now() - start;
  check(r.plan === readFileSync(join(dir, `${name}.plan.json`), "utf8"), `${name}: another plan`);
  check(Buffer.from(r.model).equals(readFileSync(join(dir, `${name}.onnx`))), `${name}: another model`);
  const folded = join(dir, `${name}.folded.bin`);
  check(existsSync(folded) === !!r.folded && (!r.folded || Buffer.from(r.folded).equals(readFileSync(folded))), `${name}: other folded constants`);
  console.log(`${name} ${JSON.stringify(options)}: peak ${r.summary.peak_bytes} B, ${(took / 1000).toFixed(2)} s by the command, ${(here / 1000).toFixed(2)} s here`);
}

// What is wrong is said in the command's words. Only external data, which the command looks at, are not there here.
const notLookedAt = ["external-directory.onnx", "external-no-length.onnx", "external-past-end.onnx"];
for (const folder of ["bad", "hostile"]) {
  for (const file of readdirSync(join(data, folder)).filter((f) => f.endsWith(".onnx")).sort()) {
    const path = join(data, folder, file);
    let text;
    try { text = readFileSync(path); } catch { continue; }
    const native = run("optimize", path, "out.onnx", "--allow-missing-weights", "--effort=fast");
    let said = "", status = 0;
    try { await optimize(text, { name: path, out: "out.onnx", allowMissingWeights: true, effort: "fast" }); } catch (e) {
      check(e instanceof OnnxmemError, `${file}: ${e}`);
      said = e.message; status = e.status;
    }
    const last = (native.err || "").trim().split("\n").at(-1);
    const differs = native.status !== status || status && last.replace(/ \(see .*\)$/, "") !== said;
    if (notLookedAt.includes(file)) check(status === 0 && native.status === 3, `${folder}/${file}: ${status}: ${said}: expected a plan here, and none by the command`);
    else if (differs) check(false, `${folder}/${file}: ${status}: ${said}\n  the command: ${native.status}: ${last}`);
  }
}

const tiny = readFileSync(join(data, "zoo", "alexnet-dyn.onnx"));
const native = JSON.parse(run("explain", join(data, "zoo", "alexnet-dyn.onnx"), "--allow-missing-weights", "--json").out);
const why = await explain(tiny, { name: join(data, "zoo", "alexnet-dyn.onnx"), allowMissingWeights: true });
delete why.text;
check(JSON.stringify(why) === JSON.stringify(native), "another explanation");
const about = await inspect(tiny, { name: join(data, "zoo", "alexnet-dyn.onnx") });
delete about.text;
check(JSON.stringify(about) === JSON.stringify(JSON.parse(run("inspect", join(data, "zoo", "alexnet-dyn.onnx"), "--json").out)), "another description");
const packed = await pack("id,lower,upper,size\na,0,2,64\nb,1,3,32\nc,3,5,64\n");
check(packed.arena_bytes === 96 && packed.optimal, `pack: ${JSON.stringify(packed)}`);
rmSync(dir, { recursive: true });
console.log(failed ? `${failed} failed` : "all equal");
process.exit(failed ? 1 : 0);
