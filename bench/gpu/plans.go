package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// network is a built-in network with its settings and the lengths of its dimensions.
type network struct {
	name string
	set  map[string]string
	dims map[string]string // but batch
}

// sequenceDims are the lengths of the dimensions that networks for text have.
var sequenceDims = map[string]map[string]string{
	"bert":        {"sequence": "128"},
	"xlmr":        {"sequence": "128"},
	"transformer": {"source": "64", "target": "64"},
}

// parseNetwork reads NAME or NAME:SETTING=VALUE,…, where a setting may be a dimension.
func parseNetwork(text string) (n network, err error) {
	name, settings, _ := strings.Cut(text, ":")
	n = network{name: name, set: map[string]string{}, dims: maps.Clone(sequenceDims[name])}
	if name == "" {
		return n, fmt.Errorf("network %q: expected NAME or NAME:SETTING=VALUE,…", text)
	}
	for s := range strings.SplitSeq(settings, ",") {
		key, value, ok := strings.Cut(s, "=")
		switch _, isDim := n.dims[key]; {
		case s == "" && settings == "":
		case !ok || key == "" || value == "":
			return n, fmt.Errorf("network %q: setting %q: expected SETTING=VALUE", text, s)
		case isDim:
			n.dims[key] = value
		default:
			n.set[key] = value
		}
	}
	return n, nil
}

// inference is the mode that is no training step; the others are names of optimizers.
const inference = "inference"

// spec is a plan to make: of a network, for inference or a training step, at a batch,
// perhaps below a limit.
type spec struct {
	network string
	mode    string
	batch   int
	limit   string // "" or as --limit takes it
	link    string // "" or as --host-link takes it
	costs   string // "" or a file for --costs
	scratch string // "" or a file for --workspaces
	cast    string // "" or as --autocast takes it
}

// file is the name of a spec's files, without an ending.
func (s spec) file() string {
	name := fmt.Sprintf("%s-%s-%d", s.network, s.mode, s.batch)
	if s.limit != "" {
		name += "-limit" + strings.TrimSuffix(s.limit, "%")
	}
	if s.link != "" {
		name += "-swap"
	}
	if s.scratch != "" {
		name += "-workspaces"
	}
	if s.cast != "" {
		name += "-" + s.cast
	}
	return name
}

// planned is a plan on the disk and what `onnxmem optimize --json` says of it.
type planned struct {
	path string
	err  error

	Arena      int64    `json:"arena_bytes"`
	Resident   int64    `json:"resident_bytes"`
	Recomputed int      `json:"recomputed_nodes"`
	Extra      *float64 `json:"extra_cost_percent"`
}

// measurer makes plans and runs them, each once.
type measurer struct {
	opt      *options
	work     string // the folder of unpacked programs, models and plans
	env      []string
	networks []network
	doc      *document

	mu       sync.Mutex
	plans    map[spec]*planJob // under mu
	planning chan struct{}     // has room for as many as may plan at a time
	measured map[spec]*run
	machined map[spec]*run // without replay
	costs    map[spec]*run
	earlier  []*run // of a run that is resumed
}

// command runs a program of the kit and returns its output. The error says the last line
// of standard error, or that the time is over.
func (m *measurer) command(ctx context.Context, folder string, line ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = folder, m.env, 5*time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	switch {
	case err == nil:
		return out, nil
	case ctx.Err() != nil:
		return out, errors.New("stopped: the time of the part is over")
	}
	return out, fmt.Errorf("%s: %w: %s", filepath.Base(line[0]), err, lastLine(stderr.String()))
}

// lastLine returns the last line that is not empty, of at most 300 bytes.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	return strings.ToValidUTF8(last[:min(len(last), 300)], "")
}

// onnxmem runs the command and decodes what it prints. A check that fails prints its result
// first, so the output is decoded whatever the exit status.
func (m *measurer) onnxmem(ctx context.Context, result any, args ...string) error {
	return m.program(ctx, "onnxmem", result, args...)
}

// program does that with one of the builds.
func (m *measurer) program(ctx context.Context, name string, result any, args ...string) error {
	out, err := m.command(ctx, m.work, append([]string{filepath.Join(m.work, name)}, args...)...)
	if decoded := json.Unmarshal(out, result); decoded != nil && err == nil {
		return fmt.Errorf("%s %s: %w", name, args[0], decoded)
	}
	return err
}

// plan makes a plan, or returns the one that was made before.
func (m *measurer) plan(ctx context.Context, s spec) *planned {
	m.mu.Lock()
	job := m.plans[s]
	if job == nil {
		job = &planJob{}
		m.plans[s] = job
	}
	m.mu.Unlock()
	job.mu.Lock()
	defer job.mu.Unlock()
	if job.done != nil {
		return job.done
	}
	m.planning <- struct{}{}
	defer func() { <-m.planning }()
	p := &planned{path: filepath.Join(m.work, s.file()+".planned.onnx")}
	if p.err = m.makePlan(ctx, s, p); p.err == nil || ctx.Err() == nil { // else it may be made in a part that has time
		job.done = p
	}
	return p
}

// planJob is a plan that is made once, whoever asks for it first.
type planJob struct {
	mu   sync.Mutex
	done *planned
}

func (m *measurer) makePlan(ctx context.Context, s spec, p *planned) error {
	net := network{name: s.network}
	if i := slices.IndexFunc(m.networks, func(n network) bool { return n.name == s.network }); i >= 0 {
		net = m.networks[i]
	}
	model, err := m.model(ctx, net)
	if err != nil {
		return err
	}
	args := []string{"optimize", model, p.path, "--json", "--effort", "fast"}
	if !exported[s.network] { // whose lengths are fixed
		args = append(args, "--dim", "batch="+strconv.Itoa(s.batch))
	}
	for _, key := range slices.Sorted(maps.Keys(net.dims)) {
		args = append(args, "--dim", key+"="+net.dims[key])
	}
	if s.mode != inference {
		args = append(args, "--train", "--optimizer", s.mode)
		args = append(args, trainingFlags[s.network]...)
	}
	for flag, value := range map[string]string{"--limit": s.limit, "--host-link": s.link, "--costs": s.costs, "--workspaces": s.scratch, "--autocast": s.cast} {
		if value != "" {
			args = append(args, flag, value)
		}
	}
	if s.link != "" { // by swaps alone, if that is enough: they are what is measured
		if err := m.onnxmem(ctx, p, append(args, "--no-recompute")...); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return m.onnxmem(ctx, p, args...)
}

// model writes the file of a network, once.
func (m *measurer) model(ctx context.Context, n network) (string, error) {
	path := n.name
	for _, key := range slices.Sorted(maps.Keys(n.set)) { // an earlier run may have had other settings
		path += "-" + key + n.set[key]
	}
	path = filepath.Join(m.work, path+".onnx")
	if exported[n.name] {
		return m.export(ctx, n.name, path)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	args := []string{"model", n.name, path + ".new", "--json"}
	for _, key := range slices.Sorted(maps.Keys(n.set)) {
		args = append(args, "--set", key+"="+n.set[key])
	}
	var described struct{}
	if err := m.onnxmem(ctx, &described, args...); err != nil {
		return "", err
	}
	return path, os.Rename(path+".new", path)
}

// prefetch makes plans in the background, in the order in which they will be run.
func (m *measurer) prefetch(ctx context.Context, list []spec) {
	for _, s := range list {
		go m.plan(ctx, s)
	}
}

// ran is what `onnxmem run --json` prints, as far as it is kept.
type ran struct {
	Outputs []struct {
		Identical *bool `json:"identical"`
	} `json:"outputs"`
	Device *struct {
		Machine   string   `json:"machine"`
		Arena     int64    `json:"arena_bytes"`
		Resident  int64    `json:"resident_bytes"`
		Constants int64    `json:"constant_bytes"`
		Scratch   int64    `json:"scratch_bytes"`
		Taken     int64    `json:"taken_bytes"`
		Fallbacks int      `json:"fallback_nodes"`
		Operators []string `json:"fallback_operators"`
		Syncs     int      `json:"syncs"`
		Replayed  int      `json:"replayed_steps"`
		Products  string   `json:"product_library"`
		Convolver string   `json:"convolution_library"`
		Computed  []struct {
			In    string `json:"in"`
			By    string `json:"by"`
			Nodes int    `json:"nodes"`
		} `json:"arithmetic"`
		Measured struct {
			Kernels int64 `json:"kernel_bytes"`
			Library int64 `json:"library_bytes"`
			Graph   int64 `json:"graph_bytes"`
		} `json:"measured"`
	} `json:"device"`
	Times struct {
		Prepare float64 `json:"prepare"` // ms
		Step    float64 `json:"step"`
	} `json:"times_ms"`
}

// execute plans and runs.
func (m *measurer) execute(ctx context.Context, s spec, flags ...string) *run {
	return m.executeBy(ctx, "onnxmem", s, flags...)
}

// executeBy is execute with one of the builds.
func (m *measurer) executeBy(ctx context.Context, program string, s spec, flags ...string) *run {
	r := &run{Network: s.network, Mode: s.mode, Batch: s.batch}
	p := m.plan(ctx, s)
	if p.err != nil {
		r.Error = p.err.Error()
		return r
	}
	r.PlannedBytes, r.Recomputed, r.Promised = p.Arena+p.Resident, p.Recomputed, p.Extra
	var out ran
	args := append([]string{"run", p.path, "--device", m.opt.Device, "--steps", strconv.Itoa(m.opt.Steps), "--json"}, flags...)
	if err := m.program(ctx, program, &out, args...); err != nil {
		r.Error = err.Error()
	}
	r.fill(&out)
	return r
}

// fill takes the figures over.
func (r *run) fill(out *ran) {
	d := out.Device
	if d == nil {
		return
	}
	r.ArenaBytes, r.OwnBytes, r.TakenBytes = d.Arena, d.Arena+d.Resident+d.Constants+d.Scratch, d.Taken
	r.Machine = d.Machine
	r.KernelBytes, r.GraphBytes, r.LibraryBytes, r.Products, r.Convolutions = d.Measured.Kernels, d.Measured.Graph, d.Measured.Library, d.Products, d.Convolver
	r.FallbackNodes, r.FallbackOps, r.Syncs, r.ReplayedSteps = &d.Fallbacks, d.Operators, d.Syncs, d.Replayed
	r.Prepare, r.Step = out.Times.Prepare/1e3, out.Times.Step/1e3
	if r.PlannedBytes > 0 && d.Taken > 0 {
		r.Deviation = relative(float64(r.blockBytes()), float64(r.PlannedBytes))
	}
	for _, a := range d.Computed {
		r.Arithmetic = append(r.Arithmetic, fmt.Sprintf("%s for %d nodes (%s)", a.In, a.Nodes, a.By))
	}
	for _, o := range out.Outputs {
		if o.Identical != nil && (r.SameBits == nil || *r.SameBits) {
			r.SameBits = o.Identical
		}
	}
}

// blockBytes is the device memory that the driver took for what the session asked for: all
// but what its own code, recordings and libraries take.
func (r *run) blockBytes() int64 {
	return r.TakenBytes - r.KernelBytes - r.GraphBytes - r.LibraryBytes
}

// relative returns by how many per cent a is more than b.
func relative(a, b float64) *float64 {
	p := 100 * (a/b - 1)
	return &p
}
