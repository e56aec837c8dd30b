package plan

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// At returns the plan of one point of the ranges: the buffers with the sizes and offsets
// that they have there, and the figures that follow. Its lower bound is that of the table
// or, at other points, the arena divided by the worst ratio, rounded up. It has no program
// order, no certificates, and no dimensions that follow from others.
//
// sizes has the bytes of tensors by name, as inference finds them at the point; if it is
// nil, the plan's polynomials give the sizes, and At fails if one is missing. It fails for
// a point that is outside of the ranges.
func (p *Plan) At(dims map[string]int64, sizes map[string]int64) (*Plan, error) {
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
	at.Buffers, at.Steps, at.Pools = slices.Clone(p.Buffers), slices.Clone(p.Steps), slices.Clone(p.Pools)
	for _, b := range p.Ranges.Stacking {
		n, err := p.sizeAt(b, point, sizes)
		if err != nil {
			return nil, err
		}
		at.Buffers[b].Bytes = n
	}
	arena, err := at.stack(p.Ranges.Stacking)
	if err != nil {
		return nil, err
	}
	at.sum(arena, p.Ranges.boundAt(point, arena))
	return &at, nil
}

// IsPoint reports whether the plan is that of a point of ranges, as [Plan.At] returns it.
func (p *Plan) IsPoint() bool {
	return p.Ranges == nil && len(p.ProgramOrder.Steps) == 0 && len(p.Steps) > 0
}

// sizeAt returns the size of buffer b at a point, rounded up.
func (p *Plan) sizeAt(b int, point, sizes map[string]int64) (int64, error) {
	buf := &p.Buffers[b]
	bytes := int64(0)
	if sizes == nil {
		i, ok := p.Ranges.SizeOf[b], false
		if i >= 0 {
			bytes, ok = p.Ranges.Sizes[i].At(point)
		}
		if !ok {
			return 0, fmt.Errorf("buffer %d: the plan has no formula for its size: expected the model, for inference at this point", b)
		}
	}
	for _, name := range buf.Tensors {
		if n, known := sizes[name]; known {
			bytes = max(bytes, n)
		} else if sizes != nil {
			return 0, fmt.Errorf("tensor %q: expected its size at this point", graph.Short(name))
		}
	}
	if bytes > buf.Bytes {
		return 0, fmt.Errorf("buffer %d: expected at most the %d bytes of the largest lengths, found %d", b, buf.Bytes, bytes)
	}
	return (bytes + p.Alignment - 1) / p.Alignment * p.Alignment, nil
}

// stack sets the offsets of the buffers of the arena and returns its size.
func (p *Plan) stack(ranking []int) (arena int64, err error) {
	tops := make([]int64, max(1, len(p.Steps)))
	for _, b := range ranking {
		buf := &p.Buffers[b]
		buf.Offset = 0
		if buf.Bytes == 0 {
			continue
		}
		live := tops[buf.First : buf.Last+1]
		buf.Offset = slices.Max(live)
		if buf.Offset > math.MaxInt64-buf.Bytes {
			return 0, fmt.Errorf("the arena exceeds 2^63 - 1 bytes")
		}
		for i := range live {
			live[i] = buf.Offset + buf.Bytes
		}
		arena = max(arena, buf.Offset+buf.Bytes)
	}
	return arena, nil
}

// sum sets the loads and the figures that follow from the buffers.
func (p *Plan) sum(arena, bound int64) {
	change := make([]int64, len(p.Steps)+2)
	s := &p.Summary
	s.NaiveBytes = 0
	for i := range p.Buffers {
		if b := &p.Buffers[i]; b.Pool == Arena {
			s.NaiveBytes += b.Bytes
			change[b.First] += b.Bytes
			change[b.Last+1] -= b.Bytes
		}
	}
	load := int64(0)
	s.PeakBytes, s.PeakStep = 0, 0
	for i := range p.Steps {
		load += change[i]
		p.Steps[i].LoadBytes = load
		if load > s.PeakBytes {
			s.PeakBytes, s.PeakStep = load, i
		}
	}
	if len(p.Steps) == 0 {
		s.PeakBytes = s.NaiveBytes
	}
	s.ProgramPeakBytes = s.PeakBytes
	s.ArenaBytes, s.TotalBytes = arena, arena+s.ResidentBytes
	s.LowerBoundBytes = min(bound, s.PeakBytes)
	s.ScheduleOptimal, s.PlacementOptimal = s.PeakBytes == s.LowerBoundBytes, arena == s.PeakBytes
	for i := range p.Pools {
		if p.Pools[i].Name == Arena {
			p.Pools[i].Bytes = arena
		}
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
