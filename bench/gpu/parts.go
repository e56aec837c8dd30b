package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// memoryBar is by how many per cent the memory that a session's blocks take may differ from
// what its plan says, or by how many bytes: the driver gives pages of 2 MiB, and there are
// four blocks.
const (
	memoryBar   = 2
	memoryPages = 4 * 2 << 20
)

const memoryPart = "memory"

// partRow is a part of the program.
type partRow struct {
	name  string
	share int // of the time, among the parts that are left
	run   func(*measurer, context.Context, *part)
}

// parts lists all parts, the most important first. What a part does not need of its share
// goes to those behind it. Later parts use measurements of earlier ones.
var parts = []partRow{
	{precisionPart, 40, (*measurer).precisions},
	{"networks", 20, (*measurer).forward},
	{"steps", 20, (*measurer).steps},
	{memoryPart, 5, (*measurer).memory},
	{"tests", 20, (*measurer).tests},
	{"profile", 6, (*measurer).profile},
	{"limits", 8, (*measurer).limits},
	{"swaps", 8, (*measurer).swaps},
	{"torch", 14, (*measurer).torch},
	{"decoders", 4, (*measurer).decoders},
	{"products", 5, (*measurer).products},
	{"times", 10, (*measurer).times},
	{"machine", 5, (*measurer).machine},
	{"batches", 6, (*measurer).batches},
	{"sanitizer", 12, (*measurer).sanitizer},
}

// all runs the chosen parts, each within its share of the time that is left, and writes the
// results after every measurement.
func (m *measurer) all(ctx context.Context, list []partRow) {
	end, limited := ctx.Deadline()
	for i, row := range list {
		shares := 0
		for _, r := range list[i:] {
			shares += r.share
		}
		p := &part{Name: row.name, Status: done}
		m.doc.Parts = append(m.doc.Parts, p)
		own, stop := ctx, context.CancelFunc(func() {})
		if limited {
			own, stop = context.WithTimeout(ctx, time.Until(end)*time.Duration(row.share)/time.Duration(shares))
		}
		began := time.Now()
		m.guarded(own, row, p)
		p.Seconds = time.Since(began).Seconds()
		if own.Err() != nil && p.Status != absent {
			p.Status = cut
			if p.Message == "" {
				p.Message = "the time of the part was over"
			}
		}
		stop()
		m.save()
		m.opt.say("%s: %s, %.0f s %s", p.Name, p.Status, p.Seconds, p.Message)
	}
}

// guarded runs a part; a bug in it does not cost the others.
func (m *measurer) guarded(ctx context.Context, row partRow, p *part) {
	defer func() {
		if x := recover(); x != nil {
			p.Status, p.Message = failed, fmt.Sprint("a bug of this program: ", x)
		}
	}()
	row.run(m, ctx, p)
}

// add notes a run.
func (m *measurer) add(p *part, r *run) {
	r.Part = p.Name
	m.doc.Runs = append(m.doc.Runs, r)
	if r.Error != "" || r.SameBits != nil && !*r.SameBits {
		p.Status = failed
	}
	m.opt.say("%s: %s: %s %s ms", p.Name, r.name(), r.verdict(), millis(r.Step))
	m.save()
}

func (m *measurer) addSuite(p *part, s suite) {
	m.doc.Suites = append(m.doc.Suites, s)
	if s.Error != "" || s.Failed > 0 || s.Faults != nil && *s.Faults > 0 {
		p.Status = failed
	}
	m.opt.say("%s: %s: %s", p.Name, s.Name, s.verdict())
	m.save()
}

// save writes what there is.
func (m *measurer) save() {
	m.doc.Seconds = time.Since(m.opt.began).Seconds()
	if err := m.doc.write(m.opt.Out); err != nil {
		m.opt.say("%v", err)
	}
}

// specs lists the first n networks in a mode; n < 0: all.
func (m *measurer) specs(mode string, n int) (list []spec) {
	for i, net := range m.networks {
		if n < 0 || i < n {
			list = append(list, spec{network: net.name, mode: mode, batch: m.opt.Batch})
		}
	}
	return list
}

// few is the number of networks that parts look at which make several plans of each.
const few = 2

// measure runs a plan with all that is on by default, planned and apart, once.
func (m *measurer) measure(ctx context.Context, s spec) *run {
	r := m.measured[s]
	if r == nil {
		r = m.execute(ctx, s, "--check", "--workspaces-out", m.workspaces(s))
		if ctx.Err() == nil {
			m.measured[s] = r
		}
	}
	again := *r
	return &again
}

func (m *measurer) measureAll(ctx context.Context, p *part, list []spec) {
	m.prefetch(ctx, list)
	for i, s := range list {
		if ctx.Err() != nil {
			p.Message = fmt.Sprintf("%d of %d plans were run", i, len(list))
			return
		}
		m.add(p, m.measure(ctx, s))
	}
}

// forward runs the networks: planned = apart.
func (m *measurer) forward(ctx context.Context, p *part) {
	m.measureAll(ctx, p, m.specs(inference, -1))
}

// steps runs training steps: of all networks with AdamW, of few with the other optimizers.
func (m *measurer) steps(ctx context.Context, p *part) {
	list := m.specs("adamw", -1)
	list = append(append(list, m.specs("sgd", few)...), m.specs("momentum", few)...)
	m.measureAll(ctx, p, list)
}

// workspaces is the file of the scratch that the nodes of a plan took.
func (m *measurer) workspaces(s spec) string {
	return filepath.Join(m.work, s.file()+".workspaces.json")
}

// memory compares the device's memory with the plan's figures, where the plan knows the
// scratch that was recorded in an earlier part.
func (m *measurer) memory(ctx context.Context, p *part) {
	var list []spec
	for _, s := range append(m.specs(inference, -1), m.specs("adamw", -1)...) {
		if r := m.measured[s]; r == nil || r.Error != "" {
			continue // there is nothing recorded
		}
		s.scratch = m.workspaces(s)
		list = append(list, s)
	}
	m.prefetch(ctx, list)
	beyond := 0
	for i, s := range list {
		if ctx.Err() != nil {
			p.Message = fmt.Sprintf("%d of %d plans were run; ", i, len(list))
			list = list[:i]
			break
		}
		r := m.execute(ctx, s)
		if r.Error == "" && !r.withinBar() {
			beyond++
		}
		m.add(p, r)
	}
	p.Message += fmt.Sprintf("%d of %d differ from their plans by more than %d %%", beyond, len(list), memoryBar)
}

// withinBar reports whether the memory meets its bar.
func (r *run) withinBar() bool {
	d := r.Deviation
	return d != nil && (*d <= memoryBar && *d >= -memoryBar || r.blockBytes() > r.PlannedBytes && r.blockBytes() <= r.PlannedBytes+memoryPages)
}

// times runs each plan through gorgonia's machine instead of as a recorded graph. Base is
// the replayed step.
func (m *measurer) times(ctx context.Context, p *part) {
	for _, s := range append(m.specs(inference, -1), m.specs("adamw", -1)...) {
		if ctx.Err() != nil {
			return
		}
		r := m.unreplayed(ctx, s)
		r.Base = m.measure(ctx, s).Step
		m.add(p, r)
	}
}

// unreplayed runs a plan through gorgonia's tape machine, once.
func (m *measurer) unreplayed(ctx context.Context, s spec) *run {
	r := m.machined[s]
	if r == nil {
		r = m.execute(ctx, s, "--replay", "no")
		r.What = "replay no"
		if ctx.Err() == nil {
			m.machined[s] = r
		}
	}
	again := *r
	return &again
}

// machine runs plans through gorgonia's CUDA machine, planned and apart. Base is the step by
// its tape machine.
func (m *measurer) machine(ctx context.Context, p *part) {
	if _, err := os.Stat(filepath.Join(m.work, cudaBuild)); err != nil {
		p.Status, p.Message = absent, "the kit has no CUDA build, for which it takes a C compiler where the kit is made"
		return
	}
	for _, s := range append(m.specs(inference, few), m.specs("adamw", few)...) {
		if ctx.Err() != nil {
			return
		}
		r := m.executeBy(ctx, cudaBuild, s, "--replay", "no", "--check")
		r.What, r.Base = "CUDA machine", m.unreplayed(ctx, s).Step
		if r.Error == "" && r.Machine != cudaMachine {
			r.Error = fmt.Sprintf("nodes were run by %s, expected %s", r.Machine, cudaMachine)
		}
		m.add(p, r)
	}
}

// cudaBuild is the command of the CUDA build, and cudaMachine what runs the nodes there.
const (
	cudaBuild   = "onnxmem-cuda"
	cudaMachine = "gorgonia's CUDA machine"
)

// products multiplies by onnxmem's own kernels instead of by cuBLAS, and convolves by cuDNN
// instead of by them. Base is the step as it is by default.
func (m *measurer) products(ctx context.Context, p *part) {
	for _, s := range append(m.specs(inference, few), m.specs("adamw", few)...) {
		if ctx.Err() != nil {
			return
		}
		with := m.measure(ctx, s)
		dnn := m.execute(ctx, s, "--cudnn", "all")
		if dnn.What, dnn.Base = "convolutions by cuDNN", with.Step; dnn.Convolutions != "" || dnn.Error != "" {
			m.add(p, dnn)
		}
		if with.Products == "" && with.Error == "" {
			p.Status, p.Message = absent, "no cuBLAS: `pip install nvidia-cublas` gets it"
			return
		}
		own := m.execute(ctx, s, "--cublas", "off")
		own.What, own.Base = "own products", with.Step
		m.add(p, own)
	}
}

// profiled measures the nodes of a step by events, once, and writes them to a file.
func (m *measurer) profiled(ctx context.Context, s spec) (*run, string) {
	path := filepath.Join(m.work, s.file()+".costs.json")
	r := m.costs[s]
	if r == nil {
		r = m.execute(ctx, s, "--costs-out", path)
		r.What = "profiled"
		if r.Error == "" {
			if err := r.readCosts(path); err != nil {
				r.Error = err.Error()
			}
		}
		if ctx.Err() == nil {
			m.costs[s] = r
		}
	}
	again := *r
	return &again, path
}

// readCosts sums a file of nanoseconds by node.
func (r *run) readCosts(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var costs map[string]float64
	if err := json.Unmarshal(text, &costs); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	slowest := -1.0
	for name, ns := range costs {
		r.ProfileSum += ns / 1e9
		if ns > slowest || ns == slowest && name < r.SlowestNode {
			slowest, r.SlowestNode, r.SlowestNodeIn = ns, name, ns/1e9
		}
	}
	return nil
}

// profile measures nodes.
func (m *measurer) profile(ctx context.Context, p *part) {
	for _, s := range append(m.specs(inference, few), m.specs("adamw", few)...) {
		if ctx.Err() != nil {
			return
		}
		r, _ := m.profiled(ctx, s)
		m.add(p, r)
	}
}

// limits plans steps below limits by recomputation, with measured costs: the promised extra
// time beside the measured one.
func (m *measurer) limits(ctx context.Context, p *part) { m.below(ctx, p, "") }

// swaps does the same with tensors that leave for host memory, over a link of the measured
// rate.
func (m *measurer) swaps(ctx context.Context, p *part) {
	l := m.doc.Device.Link
	slower := l.Both
	if slower <= 0 {
		p.Status, p.Message = failed, "the rate of the link is unknown"
		return
	}
	p.Message = fmt.Sprintf("planned for %.3f GB/s", slower/1e9)
	m.below(ctx, p, fmt.Sprintf("%.3fGB/s", slower/1e9))
}

func (m *measurer) below(ctx context.Context, p *part, link string) {
	for _, base := range m.specs("adamw", few) {
		plain, costs := m.profiled(ctx, base)
		if plain.Error != "" {
			m.add(p, plain)
			continue
		}
		step := m.measure(ctx, base).Step
		for _, limit := range []string{"70%", "50%"} {
			if ctx.Err() != nil {
				return
			}
			s := base
			s.limit, s.link, s.costs = limit, link, costs
			r := m.execute(ctx, s, "--check")
			r.What, r.Base = "limit "+limit, step
			if step > 0 && r.Step > 0 {
				r.Measured = relative(r.Step, step)
			}
			if link != "" {
				r.What += ", host"
				if err := m.overlap(s, r); err != nil && r.Error == "" {
					r.Error = err.Error()
				}
			}
			m.add(p, r)
		}
	}
}

// overlap computes how much of the transfers' time was hidden behind kernels: all of it, if
// the step takes no longer than without them, with what is recomputed by the plan's costs.
func (m *measurer) overlap(s spec, r *run) error {
	if r.Error != "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(m.work, s.file()+".planned.plan.json"))
	if err != nil {
		return err
	}
	var plan struct {
		Summary struct {
			Extra   float64 `json:"extra_cost_percent"`
			Waiting float64 `json:"waiting_percent"`
		} `json:"summary"`
		Buffers []struct {
			Pool  string `json:"pool"`
			Bytes int64  `json:"bytes"`
		} `json:"buffers"`
	}
	if err := json.Unmarshal(text, &plan); err != nil {
		return fmt.Errorf("%s: %w", s.file(), err)
	}
	for _, b := range plan.Buffers {
		if b.Pool == "host" {
			r.SwappedBytes += b.Bytes
		}
	}
	r.TransferTime = float64(r.SwappedBytes) / m.doc.Device.Link.Both
	if r.TransferTime > 0 && r.Base > 0 && r.Step > 0 {
		computing := r.Base * (1 + (plan.Summary.Extra-plan.Summary.Waiting)/100) // with what is recomputed
		hidden := 100 * (1 - min(max(r.Step-computing, 0)/(2*r.TransferTime), 1)) // out and back, if nothing overlaps
		r.Overlapped = &hidden
	}
	return nil
}

// batches runs few networks at larger batches.
func (m *measurer) batches(ctx context.Context, p *part) {
	for _, by := range []int{4, 16} {
		list := append(m.specs(inference, few), m.specs("adamw", few)...)
		for i := range list {
			list[i].batch *= by
		}
		m.prefetch(ctx, list)
		for _, s := range list {
			if ctx.Err() != nil {
				return
			}
			m.add(p, m.execute(ctx, s))
		}
	}
}

// newMeasurer makes the table of what is known empty.
func newMeasurer(o *options, d *document, nets []network) *measurer {
	return &measurer{
		opt: o, work: o.Work, doc: d, networks: nets, env: o.environment(), plans: map[spec]*planJob{}, measured: map[spec]*run{}, machined: map[spec]*run{}, costs: map[spec]*run{},
		planning: make(chan struct{}, max(runtime.NumCPU()/2, 1)),
	}
}

// chooseParts returns the rows of some names, in the table's order.
func chooseParts(names []string) (list []partRow, err error) {
	known := map[string]bool{}
	for _, row := range parts {
		known[row.name] = true
		for _, n := range names {
			if n == row.name {
				list = append(list, row)
				break
			}
		}
	}
	for _, n := range names {
		if !known[n] {
			return nil, fmt.Errorf("part %q: expected some of %s", n, strings.Join(allParts(), ", "))
		}
	}
	return list, nil
}

func allParts() (names []string) {
	for _, row := range parts {
		names = append(names, row.name)
	}
	return names
}
