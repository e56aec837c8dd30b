package alloc

import (
	"fmt"
	"math"
)

// Buffer is what is to be placed.
type Buffer struct {
	ID    string // for messages; may be empty
	Size  int64  // bytes
	First int    // the first step at which it is live
	Last  int    // the last step at which it is live
	Align int64  // its offset is a multiple of this, its size stays; 0: see Problem.Alignment
	Fixed *int64 // its offset, in bytes; nil: any
	Hint  *int64 // an offset that the exact search tries first; nil: none
	Gaps  []Gap  // ascending; in these steps it needs fewer bytes, or none
}

// Gap is the steps [First, Last], both inclusive, within a lifetime, during
// which a buffer needs but its bytes [From, To), or none of them if From = To.
// [Problem.MaxLoad] and the checks know of gaps, and [Solve] puts other buffers
// there; a strategy alone and the exact search keep the bytes throughout, which is
// a placement but may not be the best.
type Gap struct {
	First, Last int
	From, To    int64
}

// Problem is a set of buffers for one arena.
type Problem struct {
	Buffers   []Buffer
	Alignment int64 // of offsets and sizes of the buffers that have none of their own; 0: 1 byte

	// work is the number of gaps after which a greedy strategy gives up and
	// returns no offsets; 0: never. Solve sets it, and bounds its own time so.
	work int
}

// Placement is where the buffers lie.
type Placement struct {
	Offsets []int64 // of the buffers, in bytes
	Arena   int64   // bytes: the largest offset + size
}

// Validate returns an error that names the first buffer at fault, or nil if no
// size and no alignment is negative, each lifetime has a step, gaps lie in it,
// fixed offsets are aligned and do not overlap, and all sizes together, rounded
// up and with the padding that alignment may cost, fit into an int64. The
// strategies and MaxLoad take a problem that is valid. O(n), and O(k log k) for
// k fixed offsets.
func (p Problem) Validate() error {
	if p.Alignment < 0 {
		return fmt.Errorf("alignment: expected 0 or more bytes, found %d", p.Alignment)
	}
	left, highest := int64(math.MaxInt64), int64(0)
	for i := range p.Buffers {
		b := &p.Buffers[i]
		switch {
		case b.Size < 0:
			return fmt.Errorf("%s: size: expected 0 or more bytes, found %d", p.name(i), b.Size)
		case b.Align < 0:
			return fmt.Errorf("%s: alignment: expected 0 or more bytes, found %d", p.name(i), b.Align)
		case b.First > b.Last:
			return fmt.Errorf("%s: lifetime: expected the first step not to be after the last, found %d-%d", p.name(i), b.First, b.Last)
		case b.Fixed != nil && (*b.Fixed < 0 || *b.Fixed%p.align(i) != 0):
			return fmt.Errorf("%s: fixed offset: expected a multiple of %d, found %d", p.name(i), p.align(i), *b.Fixed)
		}
		if err := p.checkGaps(i); err != nil {
			return err
		}
		if b.Size == 0 {
			continue
		}
		if b.Fixed != nil {
			highest = max(highest, *b.Fixed)
		}
		// Rounding the size and the offset up adds at most align-1 each.
		for _, x := range [3]int64{b.Size, p.align(i) - 1, p.align(i) - 1} {
			if x > left {
				return fmt.Errorf("%s: %d bytes aligned to %d: all sizes together pass %d", p.name(i), b.Size, p.align(i), math.MaxInt64)
			}
			left -= x
		}
		if highest > left {
			return fmt.Errorf("%s: fixed offset %d: all sizes together pass %d", p.name(i), highest, math.MaxInt64)
		}
	}
	return p.checkFixed()
}

// MaxLoad returns the largest sum of the rounded sizes of buffers that are live
// together. No arena is smaller: at that step they all lie in it, and none
// overlaps another. O(n log n).
func (p Problem) MaxLoad() int64 {
	if p.hasGaps() {
		return p.loadWithGaps()
	}
	var most int64
	for _, load := range prepare(p).loads() {
		most = max(most, load)
	}
	return most
}

// align returns the alignment of buffer i, at least 1.
func (p Problem) align(i int) int64 {
	if a := p.Buffers[i].Align; a > 0 {
		return a
	}
	return max(1, p.Alignment)
}

// size returns the bytes that buffer i takes: its size, rounded up where it has
// the alignment of all.
func (p Problem) size(i int) int64 {
	b := &p.Buffers[i]
	if b.Align > 0 {
		return b.Size
	}
	return roundUp(b.Size, max(1, p.Alignment))
}

// roundUp returns the least multiple of align that is not below x.
func roundUp(x, align int64) int64 {
	if rest := x % align; rest > 0 {
		return x + align - rest
	}
	return x
}

// name returns a buffer's place for a message, as in `buffer 3 "conv1"`.
func (p Problem) name(i int) string {
	if id := p.Buffers[i].ID; id != "" {
		return fmt.Sprintf("buffer %d %.64q", i, id)
	}
	return fmt.Sprintf("buffer %d", i)
}
