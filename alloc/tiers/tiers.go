// Package tiers divides buffers among several memories, the fastest first.
//
// A buffer lies in one memory for its whole life. Nodes read and write it there, also
// where that is slow: so every division that the capacities permit can run. What the
// memories behind the first read and write is the slow traffic. [Solve] looks for little
// of it, and [Bound] says below which figure no plan with the same order can go.
//
//	step            0    1    2    3        capacity of the first memory: 2
//	buffer a  (2)   w====r                  traffic 4
//	buffer b  (1)        w=========r        traffic 2
//	buffer c  (1)             w====r        traffic 2
//
// At step 1 there is no room for a and b. The first memory takes a and c, which save 6
// bytes, and the other 2 are slow. The bound is 0: between two nodes never more than 2
// bytes are live, so a plan that put b into the place of a, byte by byte, would have none.
package tiers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/alloc"
)

// Use is what the node of a step reads and writes of a buffer, in bytes. What it reads was
// given, or some node has written it before.
type Use struct {
	Step          int
	Read, Written int64
	From, To      int64 // which rows these bytes are, From included; both 0: not known, or all
}

// Buffer is a range of bytes that is live from step First to step Last, both inclusive.
type Buffer struct {
	Size        int64 // bytes, a multiple of the alignment
	First, Last int
	Given       bool  // it has its content before the first step: an input
	Kept        bool  // it has its content after the last step: an output
	Uses        []Use // ascending, at most one for each step of the lifetime
	Content     int64 // bytes that have a meaning, and that a use of everything moves; 0: all of Size
	Rows        int64 // rows of equal size, of the content, of which Uses speak; 0: they speak of none
}

// traffic returns the bytes that nodes read and write.
func (b *Buffer) traffic() (bytes int64) {
	for _, u := range b.Uses {
		bytes += u.Read + u.Written
	}
	return bytes
}

// Problem is a list of buffers, and the memories among which they are divided.
type Problem struct {
	Buffers    []Buffer
	Capacities []int64 // bytes of each memory, the fastest first
	Alignment  int64   // of offsets, in bytes
}

// Division is a memory and an offset for each buffer.
type Division struct {
	Memory  []int   // by buffer: the index of its memory
	Offsets []int64 // by buffer, in bytes
	Bytes   []int64 // by memory: the end of its last buffer
	Optimal bool    // proven: no division into whole buffers has less slow traffic
}

// FullError says that buffers do not fit into all memories together, or that no offsets
// were found for those that are left for the last memory.
type FullError struct {
	Step     int   // the step with the largest load
	Load     int64 // bytes of the buffers that are live there
	Capacity int64 // of all memories
	Buffers  []int // that are live there, the largest first
}

// Error names the step and the bytes.
func (e *FullError) Error() string {
	return fmt.Sprintf("step %d: expected at most %d bytes, the capacity of all pools, found buffers of %d bytes", e.Step, e.Capacity, e.Load)
}

// Validate returns an error that names the first fault of a problem; nil if there is
// none.
func (p *Problem) Validate() error {
	if len(p.Capacities) == 0 {
		return errors.New("expected a memory, found none")
	}
	for m, c := range p.Capacities {
		if c < 0 {
			return fmt.Errorf("memory %d: expected a capacity of 0 or more bytes, found %d", m, c)
		}
	}
	left := int64(math.MaxInt64)
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if b.Size < 0 || b.Content < 0 || b.Rows < 0 || b.First < 0 || b.Last < b.First {
			return fmt.Errorf("buffer %d: expected sizes of 0 or more and a lifetime, found %d bytes and steps %d-%d", i, b.Size, b.First, b.Last)
		}
		before := b.First - 1
		for _, u := range b.Uses {
			if u.Step <= before || u.Step > b.Last || u.Read < 0 || u.Written < 0 || u.From < 0 || u.To < u.From || u.To > b.Rows {
				return fmt.Errorf("buffer %d: expected ascending uses within steps %d-%d of 0 or more bytes and of %d rows, found %d and %d bytes of rows %d-%d at step %d", i, b.First, b.Last, b.Rows, u.Read, u.Written, u.From, u.To, u.Step)
			}
			before = u.Step
			if u.Read > left || u.Written > left-u.Read {
				return fmt.Errorf("buffer %d: the traffic exceeds %d bytes", i, int64(math.MaxInt64))
			}
			left -= u.Read + u.Written
		}
	}
	return nil
}

// Solve divides the buffers: it chooses for the first memory those that save the most
// traffic, for the second the best of what is left, and so on. Its error is a
// [*FullError] if the last memory is too small for the rest, or the context's. It takes
// O(n · width · live) time for each memory, where live is the number of buffers that are
// live together, and does not depend on the machine.
func Solve(ctx context.Context, p *Problem) (*Division, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	n := len(p.Buffers)
	d := &Division{Memory: make([]int, n), Offsets: make([]int64, n), Bytes: make([]int64, len(p.Capacities)), Optimal: len(p.Capacities) <= 2}
	rest := make([]int, n)
	for i := range rest {
		rest[i] = i
	}
	last := len(p.Capacities) - 1
	for m, capacity := range p.Capacities[:last] {
		chosen, exact, err := p.fill(ctx, d, m, rest, capacity)
		if err != nil {
			return nil, err
		}
		d.Optimal = d.Optimal && exact
		rest = slices.DeleteFunc(rest, func(i int) bool { return chosen[i] })
	}
	for _, i := range rest {
		d.Memory[i] = last
	}
	fits, err := p.place(ctx, d, last, rest, p.Capacities[last], alloc.EffortDefault)
	if err == nil && !fits {
		err = p.full()
	}
	return d, err
}

// shrinks is how often fill lowers the capacity for buffers that fit at every step, but
// for which no offsets were found.
const shrinks = 12

// fill chooses buffers for a memory and places them. exact: no other choice saves more.
func (p *Problem) fill(ctx context.Context, d *Division, m int, rest []int, capacity int64) (chosen map[int]bool, exact bool, err error) {
	for room, k := capacity, 0; ; k++ {
		list, proven, err := p.choose(ctx, rest, room)
		if err != nil {
			return nil, false, err
		}
		fits, err := p.place(ctx, d, m, list, capacity, alloc.EffortDefault)
		if err != nil {
			return nil, false, err
		}
		if fits || k == shrinks {
			if !fits { // without overlaps in time, everything fits
				list = nil
				d.Bytes[m] = 0
			}
			chosen = map[int]bool{}
			for _, i := range list {
				chosen[i], d.Memory[i] = true, m
			}
			return chosen, proven && fits && k == 0, nil
		}
		room = max(0, min(room-p.align(), room-(d.Bytes[m]-capacity)))
	}
}

func (p *Problem) align() int64 { return max(1, p.Alignment) }

// place gives buffers offsets in a memory, and reports whether its capacity is enough.
func (p *Problem) place(ctx context.Context, d *Division, m int, list []int, capacity int64, effort alloc.Effort) (bool, error) {
	q := alloc.Problem{Alignment: p.Alignment}
	for _, i := range list {
		b := &p.Buffers[i]
		q.Buffers = append(q.Buffers, alloc.Buffer{Size: b.Size, First: b.First, Last: b.Last})
	}
	found, err := alloc.Solve(ctx, q, alloc.Options{Effort: effort, Short: true, Capacity: capacity})
	if err != nil {
		return false, err
	}
	for k, i := range list {
		d.Offsets[i] = found.Offsets[k]
	}
	d.Bytes[m] = found.Arena
	return found.Arena <= capacity, nil
}

// full describes the step with the largest load.
func (p *Problem) full() *FullError {
	e := &FullError{Load: -1}
	for _, c := range p.Capacities {
		if e.Capacity += c; e.Capacity < 0 {
			e.Capacity = math.MaxInt64
		}
	}
	change := map[int]int64{}
	var steps []int
	for i := range p.Buffers {
		b := &p.Buffers[i]
		change[b.First] += b.Size
		change[b.Last+1] -= b.Size
		steps = append(steps, b.First, b.Last+1)
	}
	slices.Sort(steps)
	load := int64(0)
	for _, s := range slices.Compact(steps) {
		if load += change[s]; load > e.Load {
			e.Step, e.Load = s, load
		}
	}
	for i := range p.Buffers {
		if b := &p.Buffers[i]; b.First <= e.Step && e.Step <= b.Last && b.Size > 0 {
			e.Buffers = append(e.Buffers, i)
		}
	}
	slices.SortStableFunc(e.Buffers, func(a, b int) int { return int(min(1, max(-1, p.Buffers[b].Size-p.Buffers[a].Size))) })
	return e
}
