package plan

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Check checks the consistency of a plan without its model: every index is in
// range, every buffer lies within its pool, and the loads, the peak and the sums
// of the summary follow from the buffers. Package plan/verify checks that the
// plan fits its model, that no buffers overlap, and the bound. The error names
// the first contradiction. It takes O(n) time.
func (p *Plan) Check() error {
	for _, check := range []func() error{p.checkValues, p.checkPools, p.checkBuffers, p.checkSpans, p.CheckRanges, p.checkOrders, p.checkCertificates, p.checkFigures, p.checkImpossible} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkImpossible fails on the first impossible figure. It does not check the
// identity of files, which needs the files.
func (p *Plan) checkImpossible() error {
	for _, f := range p.Impossible() {
		if f.Field != "model" && f.Field != "source" {
			return errors.New(f.Message)
		}
	}
	return nil
}

var kinds = []string{
	KindInput, KindOutput, KindActivation, KindGradient, KindWorkspace, KindParameter, KindState, KindCache, KindConstant,
}

func (p *Plan) checkValues() error {
	for _, name := range slices.Sorted(maps.Keys(p.Values)) {
		l := p.Values[name]
		if n, ok := l.Elements(); !ok || n != int64(len(l.Data)) {
			return fmt.Errorf("values: %q: expected as many numbers as its shape has elements, found %d", graph.Short(name), len(l.Data))
		}
	}
	return nil
}

func (p *Plan) checkPools() error {
	for i, pool := range p.Pools {
		switch {
		case pool.Tier != nil && (pool.Name == Arena || pool.Name == Resident || pool.Name == Host || pool.Name == Workspace):
			return fmt.Errorf("pools: %q has a capacity: expected that only of pools with other names", pool.Name)
		case pool.Tier != nil && pool.Bytes > pool.Capacity:
			return fmt.Errorf("pools: %q: expected at most %d bytes, its capacity, found %d", graph.Short(pool.Name), pool.Capacity, pool.Bytes)
		case pool.Bytes < 0:
			return fmt.Errorf("pools: %q: expected a size >= 0, found %d", graph.Short(pool.Name), pool.Bytes)
		case slices.ContainsFunc(p.Pools[:i], func(other Pool) bool { return other.Name == pool.Name }):
			return fmt.Errorf("pools: %q is listed twice", graph.Short(pool.Name))
		case i >= maxPools:
			return fmt.Errorf("pools: expected at most %d, found %d", maxPools, len(p.Pools))
		}
	}
	return nil
}

// maxPools is far above the number of pools in any plan; it keeps look-ups short.
const maxPools = 64

func (p *Plan) pool(name string) (bytes int64, known bool) {
	for _, pool := range p.Pools {
		if pool.Name == name {
			return pool.Bytes, true
		}
	}
	return 0, false
}

func (p *Plan) checkBuffers() error {
	steps := max(1, len(p.Steps)) // the inputs of a graph without nodes live at step 0
	for i := range p.Buffers {
		b := &p.Buffers[i]
		wrong := func(format string, args ...any) error {
			name := ""
			if len(b.Tensors) > 0 {
				name = fmt.Sprintf(" %q", graph.Short(b.Tensors[0]))
			}
			return fmt.Errorf("buffer %d%s: %s", i, name, fmt.Sprintf(format, args...))
		}
		bytes, known := p.pool(b.Pool)
		switch {
		case !known:
			return wrong("no pool %q", graph.Short(b.Pool))
		case b.Offset < 0 || b.Bytes < 0 || b.Bytes > bytes || b.Offset > bytes-b.Bytes:
			return wrong("expected %d bytes at offset %d to lie within pool %s of %d bytes", b.Bytes, b.Offset, b.Pool, bytes)
		case b.First < 0 || b.Last < b.First || b.Last >= steps:
			return wrong("expected a lifetime within steps 0-%d, found %d-%d", steps-1, b.First, b.Last)
		case !slices.Contains(kinds, b.Kind):
			return wrong("no kind %q", graph.Short(b.Kind))
		case b.Node != nil && (*b.Node < 0 || *b.Node >= len(p.Steps)):
			return wrong("expected the step of a node below %d, found %d", len(p.Steps), *b.Node)
		}
	}
	return nil
}

// checkSpans checks that the buffers of each span lie one behind the other.
func (p *Plan) checkSpans() error {
	if len(p.Spans) > 0 && !p.Sharing.Aliases {
		return fmt.Errorf("spans: expected none without sharing.aliases, found %d", len(p.Spans))
	}
	for i := range p.Spans {
		s := &p.Spans[i]
		if len(s.Tensors) == 0 || len(s.Buffers) < 2 {
			return fmt.Errorf("span %d: expected a tensor and two or more buffers, found %d and %d", i, len(s.Tensors), len(s.Buffers))
		}
		for j, k := range s.Buffers {
			switch {
			case k < 0 || k >= len(p.Buffers):
				return fmt.Errorf("span %d %q: expected buffers below %d, found %d", i, graph.Short(s.Tensors[0]), len(p.Buffers), k)
			case p.Buffers[k].Pool != Arena:
				return fmt.Errorf("span %d %q: buffer %d: expected pool %s, found %q", i, graph.Short(s.Tensors[0]), k, Arena, graph.Short(p.Buffers[k].Pool))
			case j > 0 && p.Buffers[k].Offset != p.Buffers[s.Buffers[j-1]].Offset+p.Buffers[s.Buffers[j-1]].Bytes:
				return fmt.Errorf("span %d %q: expected buffer %d right behind buffer %d", i, graph.Short(s.Tensors[0]), k, s.Buffers[j-1])
			}
		}
	}
	return nil
}

func (p *Plan) checkOrders() error {
	o := &p.ProgramOrder
	if len(o.Steps) != len(o.LoadBytes) || len(o.Steps) > len(p.Steps) {
		return fmt.Errorf("program_order: expected at most %d steps and a load for each, found %d and %d", len(p.Steps), len(o.Steps), len(o.LoadBytes))
	}
	seen := make([]bool, len(p.Steps))
	for i, step := range o.Steps {
		if step < 0 || step >= len(seen) || seen[step] {
			return fmt.Errorf("program_order: expected steps below %d, each once, found %d at place %d", len(seen), step, i)
		}
		seen[step] = true
		if o.LoadBytes[i] < 0 {
			return fmt.Errorf("program_order: place %d: expected a load >= 0, found %d", i, o.LoadBytes[i])
		}
	}
	return nil
}

func (p *Plan) checkCertificates() error {
	for i, c := range p.Certificates {
		if c.ValueBytes < 0 {
			return fmt.Errorf("certificate %d: expected a value >= 0, found %d", i, c.ValueBytes)
		}
		for _, step := range c.Steps {
			if step < 0 || step >= len(p.Steps) {
				return fmt.Errorf("certificate %d: expected steps below %d, found %d", i, len(p.Steps), step)
			}
		}
	}
	return nil
}

// checkFigures recomputes the loads and the sums from the buffers.
func (p *Plan) checkFigures() error {
	change := make([]int64, len(p.Steps)+2)
	naive := int64(0)
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if b.Pool == Resident || b.Pool == Host {
			continue
		}
		if b.Bytes > math.MaxInt64-naive {
			return fmt.Errorf("the sum of the buffers exceeds 2^63 - 1 bytes")
		}
		naive += b.Bytes
		change[b.First] += b.Bytes
		change[b.Last+1] -= b.Bytes
	}
	load, peak, peakStep := int64(0), int64(0), 0
	for i := range p.Steps {
		load += change[i]
		if p.Steps[i].LoadBytes != load {
			return fmt.Errorf("step %d %q: load is %d, expected %d, the sum of the live buffers", i, graph.Short(p.Steps[i].Name), p.Steps[i].LoadBytes, load)
		}
		if load > peak {
			peak, peakStep = load, i
		}
	}
	if len(p.Steps) == 0 {
		peak = naive
	}
	program := peak
	if len(p.ProgramOrder.LoadBytes) > 0 {
		program = slices.Max(p.ProgramOrder.LoadBytes)
	}
	arena, _ := p.pool(Arena)
	for _, t := range p.Tiers() {
		if arena = arena + t.Bytes; arena < 0 {
			return fmt.Errorf("the sum of the pools exceeds 2^63 - 1 bytes")
		}
	}
	resident, _ := p.pool(Resident)
	s := &p.Summary
	if arena > math.MaxInt64-resident {
		return fmt.Errorf("the sum of the pools exceeds 2^63 - 1 bytes")
	}
	for _, f := range []struct {
		name        string
		found, want int64
	}{
		{"nodes", int64(s.Nodes), int64(len(p.Steps))},
		{"naive_bytes", s.NaiveBytes, naive},
		{"peak_bytes", s.PeakBytes, peak},
		{"peak_step", int64(s.PeakStep), int64(peakStep)},
		{"program_order_peak_bytes", s.ProgramPeakBytes, program},
		{"arena_bytes", s.ArenaBytes, arena},
		{"resident_bytes", s.ResidentBytes, resident},
		{"total_bytes", s.TotalBytes, arena + resident},
	} {
		if f.found != f.want {
			return fmt.Errorf("summary: %s is %d, expected %d", f.name, f.found, f.want)
		}
	}
	if s.LowerBoundBytes < 0 || s.LowerBoundBytes > peak {
		return fmt.Errorf("summary: lower_bound_bytes is %d, expected 0-%d, the peak", s.LowerBoundBytes, peak)
	}
	return nil
}
