package trace

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/onnxmem/onnxmem/alloc"
)

// Packed is an iteration with a place for each block. Each stream has its own part of
// the arena, since only the order within a stream says when a block is no longer used.
type Packed struct {
	*Iteration
	Alignment  int64
	Offsets    []int64 // by buffer
	Arena      int64   // bytes
	LowerBound int64   // proven, with a part for each stream
	Load       int64   // the largest sum of live bytes, by stream
	Parts      []Part
}

// Part is the part of the arena that belongs to a stream.
type Part struct {
	Stream       int64
	Offset       int64
	Buffers      int
	alloc.Result // its offsets are within the part; Infeasible has indices of Iteration.Buffers
}

// Pack places the blocks of an iteration and checks the result with code that shares
// nothing with the search. opt.Capacity is ignored if there are several streams.
func (it *Iteration) Pack(ctx context.Context, alignment int64, opt alloc.Options) (*Packed, error) {
	k := &Packed{Iteration: it, Alignment: alignment, Offsets: make([]int64, len(it.Buffers))}
	streams := it.Streams()
	if len(streams) > 1 {
		opt.Capacity = 0
	}
	for _, stream := range streams {
		part := Part{Stream: stream, Offset: k.Arena}
		p, index := it.problem(stream, alignment)
		part.Buffers = len(index)
		var err error
		if part.Result, err = alloc.Solve(ctx, p, opt); err != nil {
			return nil, err
		}
		if err := p.CheckSweep(part.Placement); err != nil {
			return nil, fmt.Errorf("internal error in placement by %s: %w", part.Strategy, err)
		}
		for j, i := range index {
			k.Offsets[i] = part.Offset + part.Offsets[j]
		}
		for j, i := range part.Infeasible {
			part.Infeasible[j] = int32(index[i])
		}
		// Arenas are multiples of the alignment, as all sizes are.
		k.Arena += part.Arena
		k.LowerBound += part.LowerBound
		k.Load += p.MaxLoad()
		k.Parts = append(k.Parts, part)
	}
	return k, nil
}

// Problem returns the placed blocks of all streams as one problem of placement. Blocks
// of two streams that overlap in time never overlap in the arena, so its placement is
// valid; its bound knows nothing of the streams and may be lower.
func (k *Packed) Problem() alloc.Problem {
	p := alloc.Problem{Alignment: k.Alignment}
	for _, b := range k.Buffers {
		p.Buffers = append(p.Buffers, k.buffer(b))
	}
	return p
}

// Optimal reports whether the arena is proven to be the smallest.
func (k *Packed) Optimal() bool { return k.Arena == k.LowerBound }

// WriteReplay writes the replay table: what the allocator of a runtime has to return
// for each allocation of an iteration.
//
//	onnxmem/replay 1
//	alignment 64
//	arena 192
//	lower_bound 192
//	events 4
//	alloc 0 100 0 0
//	alloc 1 50 128 0
//	free 0
//	free 1
//
// A line alloc has the number of the block, its size, its offset and its stream. A
// free that stands before its alloc belongs to the block of the round before. Blocks
// that an iteration keeps are left out.
func (k *Packed) WriteReplay(w io.Writer) error {
	type event struct {
		step   int
		free   bool
		buffer int
	}
	var events []event
	for i, b := range k.Buffers {
		events = append(events, event{b.Alloc, false, i})
		if b.Free < k.Steps() {
			events = append(events, event{b.Free, true, i})
		}
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.step, b.step) })
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "onnxmem/replay 1\nalignment %d\narena %d\nlower_bound %d\nevents %d\n", k.Alignment, k.Arena, k.LowerBound, len(events))
	for _, e := range events {
		if e.free {
			fmt.Fprintf(out, "free %d\n", e.buffer)
			continue
		}
		b := k.Buffers[e.buffer]
		fmt.Fprintf(out, "alloc %d %d %d %d\n", e.buffer, b.Size, k.Offsets[e.buffer], b.Stream)
	}
	return out.Flush()
}
