package flat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/alloc/tiers"
	"github.com/onnxmem/onnxmem/plan/verify/bare"
)

// Buffers are buffers with given lifetimes: buffer i is live from step Lower[i] to before step
// Upper[i]. All lists but these and Size may be nil.
type Buffers struct {
	Lower, Upper, Size []int64
	Alignment          []int64 // of the offset alone; 0: Common
	Common             int64   // of offset and size of the others; 0: 1
	Fixed              []int64 // the offset; below 0: any
	Hint               []int64 // the offset that the exact search tries first; below 0: none

	// The gaps of buffer i are those from GapBegin[i] to before GapBegin[i+1].
	GapBegin                           []int64
	GapLower, GapUpper, GapFrom, GapTo []int64

	Pool     []int32 // by buffer; -1 for all: the fastest pools that have room; nil: 0
	Capacity []int64 // by pool, the fastest first, in bytes; below 0: any. There is one at least
}

// Packed is what is known of a pool.
type Packed struct {
	Arena, Bound int64
	Proven       bool
	Fits         int // 1 the capacity is kept, 0 proven impossible, -1 not known or no capacity
}

// Packing is the places of buffers.
type Packing struct {
	Offsets    []int64
	Pool       []int32
	Pools      []Packed
	Infeasible []bool // by buffer: of a few of its pool that do not fit even alone; nil: none
	Ended      bool
}

// check checks what the packages below do not see.
func (b *Buffers) check() error {
	n := len(b.Size)
	if b.GapBegin != nil {
		if b.GapBegin[0] != 0 {
			return refusef("gaps: expected the first place 0, found %d", b.GapBegin[0])
		}
		for i := range n {
			if b.GapBegin[i] > b.GapBegin[i+1] || b.GapBegin[i+1] > int64(len(b.GapLower)) {
				return refusef("gaps of buffer %d: expected ascending places up to %d, found %d and %d", i, len(b.GapLower), b.GapBegin[i], b.GapBegin[i+1])
			}
		}
	}
	for i := range n {
		if b.Lower[i] >= b.Upper[i] {
			return refusef("buffer %d: lifetime: expected lower below upper, found %d and %d", i, b.Lower[i], b.Upper[i])
		}
		if b.Lower[i] < math.MinInt32 || b.Upper[i] > math.MaxInt32 {
			return refusef("buffer %d: lifetime: expected steps of 32 bits, found %d to %d", i, b.Lower[i], b.Upper[i])
		}
		if p := at(b.Pool, i, 0); p < -1 || int(p) >= len(b.Capacity) {
			return refusef("buffer %d: expected a pool below %d, or -1, found %d", i, len(b.Capacity), p)
		}
	}
	for _, list := range [][]int64{b.GapLower, b.GapUpper} {
		for k, s := range list {
			if s < math.MinInt32 || s > math.MaxInt32 {
				return refusef("gap %d: expected steps of 32 bits, found %d", k, s)
			}
		}
	}
	if slices.Contains(b.Pool, -1) && slices.ContainsFunc(b.Pool, func(p int32) bool { return p >= 0 }) {
		return &Refused{errMixed}
	}
	return nil
}

// problem returns the buffers of a pool, and their indices; nil: these are all buffers.
func (b *Buffers) problem(pool int32) (p alloc.Problem, ids []int) {
	p.Alignment = b.Common
	several := len(b.Capacity) > 1
	for i := range b.Size {
		if at(b.Pool, i, 0) != pool {
			continue
		}
		x := alloc.Buffer{Size: b.Size[i], First: int(b.Lower[i]), Last: int(b.Upper[i] - 1), Align: at(b.Alignment, i, 0)}
		if several {
			x.ID = fmt.Sprint("buffer ", i)
			ids = append(ids, i)
		}
		if f := at(b.Fixed, i, -1); f >= 0 {
			x.Fixed = &b.Fixed[i]
		}
		if h := at(b.Hint, i, -1); h >= 0 {
			x.Hint = &b.Hint[i]
		}
		if b.GapBegin != nil {
			for k := b.GapBegin[i]; k < b.GapBegin[i+1]; k++ {
				x.Gaps = append(x.Gaps, alloc.Gap{First: int(b.GapLower[k]), Last: int(b.GapUpper[k] - 1), From: b.GapFrom[k], To: b.GapTo[k]})
			}
		}
		p.Buffers = append(p.Buffers, x)
	}
	return p, ids
}

// Pack places the buffers.
func (b *Buffers) Pack(ctx context.Context, effort alloc.Effort) (*Packing, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	r := &Packing{Offsets: make([]int64, len(b.Size)), Pool: b.Pool, Pools: make([]Packed, len(b.Capacity))}
	if slices.Contains(b.Pool, -1) {
		return r, b.divide(ctx, r)
	}
	for pool := range b.Capacity {
		p, ids := b.problem(int32(pool))
		if err := p.Validate(); err != nil {
			return nil, b.inPool(pool, err)
		}
		capacity := b.Capacity[pool]
		found, err := alloc.Solve(ctx, p, alloc.Options{Effort: effort, Capacity: max(capacity, 0)})
		if err != nil {
			return nil, err
		}
		if err := p.CheckSweep(found.Placement); err != nil {
			return nil, fmt.Errorf("internal error in placement by %s: %w", found.Strategy, err)
		}
		r.Pools[pool] = Packed{found.Arena, found.LowerBound, found.Optimal, fits(found.Arena, found.LowerBound, capacity)}
		for k, at := range found.Offsets {
			r.Offsets[original(ids, k)] = at
		}
		for _, k := range found.Infeasible {
			r.refuse(original(ids, int(k)))
		}
	}
	r.Ended = ctx.Err() != nil // also where arenas are proven: another search may find other places
	return r, nil
}

func original(ids []int, k int) int {
	if ids == nil {
		return k
	}
	return ids[k]
}

// fits compares an arena and its bound with a capacity, of which 0 is one, too.
func fits(arena, bound, capacity int64) int {
	switch {
	case capacity >= 0 && arena <= capacity:
		return 1
	case capacity >= 0 && bound > capacity:
		return 0
	}
	return -1
}

func (r *Packing) refuse(i int) {
	if r.Infeasible == nil {
		r.Infeasible = make([]bool, len(r.Offsets))
	}
	r.Infeasible[i] = true
}

// inPool names the pool of an error if there are several.
func (b *Buffers) inPool(pool int, err error) error {
	if len(b.Capacity) > 1 {
		return refusef("pool %d: %w", pool, err)
	}
	return &Refused{err}
}

// divide chooses a pool for each buffer, too: as little as possible is read and written in the
// slower ones, if each buffer is written whole at its first step and read at its last.
func (b *Buffers) divide(ctx context.Context, r *Packing) error {
	r.Pool = make([]int32, len(b.Size))
	if b.Fixed != nil || b.Hint != nil || b.GapBegin != nil || b.Alignment != nil {
		return refusef("pools: expected no fixed offsets, hints, gaps and alignments of single buffers beside pools that are left open")
	}
	t := tiers.Problem{Alignment: max(b.Common, 1)}
	start := int64(0) // tiers counts steps from 0
	if len(b.Lower) > 0 {
		start = slices.Min(b.Lower)
	}
	for _, c := range b.Capacity {
		if c < 0 {
			c = math.MaxInt64 / 4
		}
		t.Capacities = append(t.Capacities, c)
	}
	whole := Buffers{Lower: b.Lower, Upper: b.Upper, Size: b.Size, Common: b.Common, Capacity: []int64{-1}}
	one, _ := whole.problem(0)
	if err := one.Validate(); err != nil {
		return &Refused{err}
	}
	for i := range b.Size {
		x := tiers.Buffer{Size: rounded(b.Size[i], t.Alignment), First: int(b.Lower[i] - start), Last: int(b.Upper[i] - 1 - start)}
		if x.First == x.Last {
			x.Uses = []tiers.Use{{Step: x.First, Read: x.Size, Written: x.Size}}
		} else {
			x.Uses = []tiers.Use{{Step: x.First, Written: x.Size}, {Step: x.Last, Read: x.Size}}
		}
		t.Buffers = append(t.Buffers, x)
	}
	if err := t.Validate(); err != nil {
		return &Refused{err}
	}
	d, err := tiers.Solve(ctx, &t)
	r.Ended = ctx.Err() != nil
	var full *tiers.FullError
	switch {
	case errors.As(err, &full):
		for k := range r.Pools {
			r.Pools[k].Fits = -1
			if full.Load > full.Capacity {
				r.Pools[k].Fits = 0
			}
		}
		for _, i := range full.Buffers {
			r.refuse(i)
		}
		return nil
	case err != nil:
		return err
	}
	copy(r.Offsets, d.Offsets)
	for i, m := range d.Memory {
		r.Pool[i] = int32(m)
	}
	placed := *b
	placed.Pool = r.Pool
	for k := range b.Capacity {
		p, _ := placed.problem(int32(k))
		bound := p.MaxLoad()
		r.Pools[k] = Packed{d.Bytes[k], bound, d.Bytes[k] == bound, fits(d.Bytes[k], bound, b.Capacity[k])}
	}
	return nil
}

func rounded(size, align int64) int64 { return (size + align - 1) / align * align }

// Verify checks offsets and, if pools were left open, the pools chosen, by code that the search
// does not use. It returns the arena and the bound of each pool.
func (b *Buffers) Verify(offsets []int64, pools []int32) ([]bare.Verdict, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	chosen := *b
	if slices.Contains(b.Pool, -1) {
		if chosen.Pool = pools; pools == nil {
			return nil, refusef("pools: expected the pools that were chosen")
		}
		for i, p := range pools {
			if p < 0 || int(p) >= len(b.Capacity) {
				return nil, &Invalid{fmt.Errorf("buffer %d: expected a pool below %d, found %d", i, len(b.Capacity), p)}
			}
		}
	}
	verdicts := make([]bare.Verdict, len(b.Capacity))
	for pool := range b.Capacity {
		p, ids := chosen.problem(int32(pool))
		if err := p.Validate(); err != nil {
			return nil, b.inPool(pool, err)
		}
		list, places := make([]bare.Buffer, len(p.Buffers)), make([]int64, len(p.Buffers))
		for k := range p.Buffers {
			x := &p.Buffers[k]
			y := &list[k]
			*y = bare.Buffer{Bytes: x.Size, First: x.First, Last: x.Last, Align: cmp.Or(x.Align, p.Alignment), Fixed: -1}
			if x.Align == 0 {
				y.Bytes = rounded(x.Size, max(p.Alignment, 1))
			}
			if x.Fixed != nil {
				y.Fixed = *x.Fixed
			}
			for _, g := range x.Gaps {
				y.Gaps = append(y.Gaps, bare.Gap(g))
			}
			places[k] = offsets[original(ids, k)]
		}
		v, err := bare.Places(list, places, b.Capacity[pool])
		if err != nil && ids != nil {
			err = fmt.Errorf("pool %d, of whose buffers 0 is buffer %d: %w", pool, ids[0], err)
		}
		if err != nil {
			return nil, &Invalid{err}
		}
		verdicts[pool] = v
	}
	return verdicts, nil
}
