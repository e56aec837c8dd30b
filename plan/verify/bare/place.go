package bare

import (
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
)

// Buffer is a range of bytes that is needed from step First to step Last, both inclusive.
type Buffer struct {
	Bytes       int64 // as placed: rounded up
	First, Last int
	Align       int64 // the offset is a multiple of it; 0: of 1
	Fixed       int64 // the offset that it must have; below 0: any
	Gaps        []Gap // ascending, within the lifetime
}

// Gap is steps, both inclusive, at which only the bytes From to To-1 of a buffer are needed.
type Gap struct {
	First, Last int
	From, To    int64
}

// Places checks the offsets of buffers in one arena of at most a capacity, in bytes (below 0:
// any): aligned, as fixed, and apart wherever two buffers need their bytes at one step. The
// bound is the largest sum of the bytes that are needed at a step. The error names the first
// fault. It takes O(n log n) time.
func Places(buffers []Buffer, offsets []int64, capacity int64) (Verdict, error) {
	var v Verdict
	if len(offsets) != len(buffers) {
		return v, fmt.Errorf("expected an offset for each of %d buffers, found %d", len(buffers), len(offsets))
	}
	var areas []core.Extent
	var owner []int
	for i := range buffers {
		b, at := &buffers[i], offsets[i]
		switch {
		case b.Bytes < 0 || b.First > b.Last:
			return v, fmt.Errorf("buffer %d: %d bytes at steps %d to %d: expected 0 or more at one step or more", i, b.Bytes, b.First, b.Last)
		case at < 0 || at > math.MaxInt64-b.Bytes:
			return v, fmt.Errorf("buffer %d: offset %d: expected 0 to %d", i, at, math.MaxInt64-b.Bytes)
		case b.Bytes > 0 && at%max(b.Align, 1) != 0:
			return v, fmt.Errorf("buffer %d: offset %d: expected a multiple of %d", i, at, b.Align)
		case b.Fixed >= 0 && b.Bytes > 0 && at != b.Fixed:
			return v, fmt.Errorf("buffer %d: offset %d: expected the fixed one, %d", i, at, b.Fixed)
		case capacity >= 0 && b.Bytes > 0 && at+b.Bytes > capacity:
			return v, fmt.Errorf("buffer %d: it ends at %d: expected at most the capacity, %d", i, at+b.Bytes, capacity)
		}
		if b.Bytes == 0 {
			continue
		}
		v.Bytes = max(v.Bytes, at+b.Bytes)
		if b.Fixed >= 0 {
			v.Bound = max(v.Bound, at+b.Bytes)
		}
		first := b.First
		for _, g := range append(slices.Clone(b.Gaps), Gap{First: b.Last + 1, Last: b.Last + 1}) {
			if g.First < first || g.First > g.Last || g.Last > b.Last && g.First != b.Last+1 || g.From < 0 || g.From > g.To || g.To > b.Bytes {
				return v, fmt.Errorf("buffer %d: gap of steps %d to %d, bytes %d to %d: expected it within the buffer, behind the one before", i, g.First, g.Last, g.From, g.To)
			}
			if first < g.First {
				areas, owner = append(areas, core.Extent{Offset: at, End: at + b.Bytes, First: first, Last: g.First - 1}), append(owner, i)
			}
			if g.From < g.To {
				areas, owner = append(areas, core.Extent{Offset: at + g.From, End: at + g.To, First: g.First, Last: g.Last}), append(owner, i)
			}
			first = g.Last + 1
		}
	}
	var err error
	core.Overlap(areas, func(a, b int) {
		if err == nil {
			x, y := &areas[a], &areas[b]
			err = fmt.Errorf("buffer %d at %d and buffer %d at %d share bytes at step %d", owner[a], x.Offset, owner[b], y.Offset, max(x.First, y.First))
		}
	})
	v.Bound = max(v.Bound, largestLoad(areas))
	return v, err
}

// largestLoad is the largest sum of the sizes of areas at a step: at most the end of the
// highest where none of them overlap, and so no more than an int64 holds.
func largestLoad(areas []core.Extent) (largest int64) {
	type event struct {
		step  int
		bytes int64
	}
	events := make([]event, 0, 2*len(areas))
	for _, a := range areas {
		events = append(events, event{a.First, a.End - a.Offset}, event{a.Last + 1, a.Offset - a.End})
	}
	slices.SortFunc(events, func(a, b event) int {
		switch {
		case a.step != b.step && a.step < b.step, a.step == b.step && a.bytes < b.bytes: // ends come first
			return -1
		case a == b:
			return 0
		}
		return 1
	})
	live := int64(0)
	for _, e := range events {
		live += e.bytes
		largest = max(largest, live)
	}
	return largest
}
