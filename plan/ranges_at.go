package plan

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// At returns the plan of one point of the ranges: the buffers with the sizes and offsets
// that they have there, and the figures that follow. Host memory has the places of the largest
// lengths, as the costs of steps and of a limit are theirs. Its lower bound is that of the table
// or, at other points, the arena divided by the worst ratio, rounded up. It has no program
// order, no certificates, and no dimensions that follow from others.
//
// sizes has, for each graph in the order of [Graphs], the bytes of its tensors by name, as
// inference finds them at the point. If it is nil, the plan's polynomials give the sizes, and
// At fails if one is missing. It fails for a point that is outside of the ranges.
func (p *Plan) At(dims map[string]int64, sizes []map[string]int64) (*Plan, error) {
	if p.Ranges == nil {
		return nil, fmt.Errorf("the plan is for one length of each dimension: expected one for ranges")
	}
	point := map[string]int64{}
	names, _ := p.Box()
	for name, n := range dims {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("dimension %q: expected one of those with several lengths, %q", graph.Short(name), names)
		}
		point[name] = n
	}
	if err := p.CheckPoint(point); err != nil {
		return nil, err
	}
	at := *p
	at.Version, at.Ranges, at.Certificates = Version, nil, []Certificate{}
	at.ProgramOrder = ProgramOrder{Steps: []int{}, LoadBytes: []int64{}}
	at.Dims = map[string]Dim{}
	for name, d := range p.Dims {
		if n, several := point[name]; several {
			d = Dim{Value: n, Assumed: d.Assumed}
		}
		if !d.Follows {
			at.Dims[name] = d
		}
	}
	layers, err := p.layers()
	if err != nil {
		return nil, err
	}
	if sizes == nil {
		sizes = make([]map[string]int64, len(layers))
	} else if len(sizes) != len(layers) {
		return nil, fmt.Errorf("expected the sizes of %d graphs, found %d", len(layers), len(sizes))
	}
	at.Buffers, at.Steps, at.Pools, at.Subgraphs = slices.Clone(p.Buffers), slices.Clone(p.Steps), slices.Clone(p.Pools), slices.Clone(p.Subgraphs)
	works := make([]map[int]int64, len(layers)) // of the nodes of each graph, by their steps
	for k := len(layers) - 1; k > 0; k-- {      // those within a body follow it
		s := &at.Subgraphs[k-1]
		s.Buffers, s.Steps, s.Ranges = slices.Clone(s.Buffers), slices.Clone(s.Steps), nil
		ends, err := p.stack(&layers[k], s.Buffers, works[k], point, sizes[k])
		if err != nil {
			return nil, err
		}
		s.Bytes = ends[0]
		loads(layers[k].pools, s.Buffers, s.Steps)
		outer := 0
		if s.Parent != nil {
			outer = *s.Parent + 1
		}
		if works[outer] == nil {
			works[outer] = map[int]int64{}
		}
		works[outer][s.Step] = max(works[outer][s.Step], s.Bytes)
	}
	ends, err := p.stack(&layers[0], at.Buffers, works[0], point, sizes[0])
	if err != nil {
		return nil, err
	}
	arena, err := at.fill(layers[0].pools, ends)
	if err != nil {
		return nil, err
	}
	if err := at.swapped(sizes[0]); err != nil {
		return nil, err
	}
	at.sum(layers[0].pools, arena, p.Ranges.boundAt(point, arena))
	return &at, nil
}

// fill gives the pools in which buffers are stacked their sizes at a point, and returns the sum.
// What nodes move there, is known only with the model.
func (p *Plan) fill(pools []string, ends []int64) (sum int64, err error) {
	for i := range p.Pools {
		pool := &p.Pools[i]
		m := slices.Index(pools, pool.Name)
		if m < 0 {
			continue
		}
		pool.Bytes = ends[m]
		if sum > math.MaxInt64-ends[m] {
			return 0, fmt.Errorf("the sum of the pools exceeds 2^63 - 1 bytes")
		}
		sum += ends[m]
		if pool.Tier != nil {
			pool.Tier = &Tier{Capacity: pool.Capacity, BytesPerSecond: pool.BytesPerSecond}
		}
	}
	p.Summary.Tiered, p.TrafficPrices = nil, nil
	return sum, nil
}

// IsPoint reports whether the plan is that of a point of ranges, as [Plan.At] returns it.
func (p *Plan) IsPoint() bool {
	return p.Ranges == nil && len(p.ProgramOrder.Steps) == 0 && len(p.Steps) > 0
}

// sizeAt returns the size of buffer b of a graph at a point, rounded up. works has the
// workspaces of the graph's nodes, by their steps.
func (p *Plan) sizeAt(l *layer, b int, works map[int]int64, point, sizes map[string]int64) (int64, error) {
	buf := &l.buffers[b]
	bytes := int64(0)
	switch {
	case buf.Node != nil:
		bytes = works[*buf.Node]
	case sizes == nil || len(buf.Tensors) == 0: // it has parts of tensors alone
		i, ok := l.sizeOf[b], false
		if i >= 0 {
			bytes, ok = p.Ranges.Sizes[i].At(point)
		}
		if !ok {
			return 0, fmt.Errorf("%sbuffer %d: the plan has no formula for its size: expected the model, for inference at this point", l.label(), b)
		}
	}
	for _, name := range buf.Tensors {
		if n, known := sizes[name]; known {
			bytes = max(bytes, n)
		} else if sizes != nil {
			return 0, fmt.Errorf("%stensor %q: expected its size at this point", l.label(), graph.Short(name))
		}
	}
	if bytes > buf.Bytes {
		return 0, fmt.Errorf("%sbuffer %d: expected at most the %d bytes of the largest lengths, found %d", l.label(), b, buf.Bytes, bytes)
	}
	return (bytes + p.Alignment - 1) / p.Alignment * p.Alignment, nil
}

// swapped gives the copies in host memory their sizes at a point, where they are known; else
// they keep those of the largest lengths.
func (p *Plan) swapped(sizes map[string]int64) error {
	total := int64(0)
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if b.Pool != Host {
			continue
		}
		if sizes != nil {
			bytes := int64(0)
			for _, name := range b.Tensors {
				bytes = max(bytes, sizes[name])
			}
			if bytes > b.Bytes {
				return fmt.Errorf("buffer %d: expected at most the %d bytes of the largest lengths, found %d", i, b.Bytes, bytes)
			}
			b.Bytes = (bytes + p.Alignment - 1) / p.Alignment * p.Alignment
		}
		total += b.Bytes
	}
	if l := p.Summary.Limited; l != nil {
		of := *l
		of.SwappedBytes = total
		p.Summary.Limited = &of
	}
	return nil
}

// label is where the graph is, for messages about one of its buffers; "" for the main graph.
func (l *layer) label() string {
	if l.where == "ranges: " {
		return ""
	}
	return strings.TrimSuffix(l.where, "ranges: ")
}

// stack gives the buffers of a graph, a copy of those of the layer, their sizes and offsets
// at a point, and returns the end of the last one in each pool.
func (p *Plan) stack(l *layer, buffers []Buffer, works map[int]int64, point, sizes map[string]int64) (ends []int64, err error) {
	ends = make([]int64, len(l.pools))
	topsOf := make([][]int64, len(l.pools))
	for m := range topsOf {
		topsOf[m] = make([]int64, max(1, l.steps))
	}
	for rank := 0; rank < len(l.stacking); {
		end := rank + 1
		for l.chained(end) {
			end++
		}
		row := l.stacking[rank:end]
		rank = end
		m := l.memory(row[0]) // that of all, since tensors lie in one pool
		tops := topsOf[m]
		base, before := int64(0), int64(0) // the offset of the row; the bytes before a buffer
		for _, b := range row {
			buf := &buffers[b]
			if buf.Bytes, err = p.sizeAt(l, b, works, point, sizes); err != nil {
				return nil, err
			}
			if buf.Bytes == 0 {
				continue
			}
			base = max(base, slices.Max(tops[buf.First:buf.Last+1])-before)
			if before > math.MaxInt64-buf.Bytes || base > math.MaxInt64-before-buf.Bytes {
				return nil, fmt.Errorf("the arena exceeds 2^63 - 1 bytes")
			}
			before += buf.Bytes
		}
		for _, b := range row {
			buf := &buffers[b]
			buf.Offset = 0
			if buf.Bytes == 0 {
				continue
			}
			buf.Offset = base
			base += buf.Bytes
			live := tops[buf.First : buf.Last+1]
			for i := range live {
				live[i] = max(live[i], base)
			}
		}
		if before > 0 {
			ends[m] = max(ends[m], base)
		}
	}
	return ends, nil
}

// loads sets the loads of the steps from the buffers of some pools, and returns the sum of
// these, the largest load, and its first step.
func loads(pools []string, buffers []Buffer, steps []Step) (naive, peak int64, peakStep int) {
	change := make([]int64, len(steps)+2)
	for i := range buffers {
		if b := &buffers[i]; slices.Contains(pools, b.Pool) {
			naive += b.Bytes
			change[b.First] += b.Bytes
			change[b.Last+1] -= b.Bytes
		}
	}
	load := int64(0)
	for i := range steps {
		load += change[i]
		steps[i].LoadBytes = load
		if load > peak {
			peak, peakStep = load, i
		}
	}
	if len(steps) == 0 {
		peak = naive
	}
	return naive, peak, peakStep
}

// sum sets the loads and the figures that follow from the buffers.
func (p *Plan) sum(pools []string, arena, bound int64) {
	s := &p.Summary
	s.NaiveBytes, s.PeakBytes, s.PeakStep = loads(pools, p.Buffers, p.Steps)
	s.ProgramPeakBytes = s.PeakBytes
	s.ArenaBytes, s.TotalBytes = arena, arena+s.ResidentBytes
	s.LowerBoundBytes = min(bound, s.PeakBytes)
	s.ScheduleOptimal, s.PlacementOptimal = s.PeakBytes == s.LowerBoundBytes, arena == s.PeakBytes
	if t := p.Traversal; t != nil { // the best peak of a point is not known
		at := *t
		at.BestPeakBytes = max(s.LowerBoundBytes, min(t.BestPeakBytes, s.PeakBytes))
		p.Traversal = &at
	}
}

// boundAt returns a lower bound at a point.
func (r *Ranges) boundAt(point map[string]int64, arena int64) int64 {
	for _, row := range append(r.Table, r.Smallest, r.Worst) {
		if maps.Equal(row.Dims, point) {
			return row.LowerBoundBytes
		}
	}
	if r.Worst.ArenaBytes <= 0 || r.Worst.LowerBoundBytes < 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(arena), uint64(r.Worst.LowerBoundBytes))
	if hi >= uint64(r.Worst.ArenaBytes) {
		return 0 // the bound of the worst point exceeds its arena
	}
	q, rest := bits.Div64(hi, lo, uint64(r.Worst.ArenaBytes))
	if rest > 0 {
		q++
	}
	return int64(min(q, math.MaxInt64))
}
