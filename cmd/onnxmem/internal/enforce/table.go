package enforce

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/onnxmem/onnxmem/alloc"
)

// Table is a recorded run with a place for each block: the tensors where the plan has
// them, everything else in the holes, or above the plan where no hole is large enough.
type Table struct {
	Run       []Recorded
	Alignment int64
	Moved     bool    // all blocks were placed again, since that takes less than the plan's places
	Offsets   []int64 // by recorded block; none: outside, a result
	Over      []int   // by recorded block: the one that it is written over, which is live; none
	Tensors   int     // blocks at the places of the plan
	InPlace   int     // of these, those that are written over another
	Scratch   int64   // the largest sum of live blocks that the plan does not have, each rounded up

	Problem alloc.Problem // of the blocks; what is written over another is one buffer with that
	Result  alloc.Result  // of that problem
	of      []int         // by recorded block: its buffer in the problem, or none
}

// Options are those of [Place].
type Options struct {
	Alignment int64
	Results   bool          // blocks that outlive the run are in the arena, too
	Alloc     alloc.Options // for what the plan has no place for
}

// Place places the blocks of a run of which [Match] has found the tensors. The plan has room
// for inputs and results, which are the caller's, and may not know of scratch. If the arena
// is then larger than the most that is live, and placing all blocks again does better, they
// are placed again. So they are if the runtime keeps a block longer than the plan has it.
// What is written over an operand stays so.
func Place(ctx context.Context, l *List, run []Recorded, match []int, opt Options) (*Table, error) {
	t := &Table{
		Run: run, Alignment: opt.Alignment,
		Offsets: make([]int64, len(run)), Over: make([]int, len(run)), of: make([]int, len(run)),
		Problem: alloc.Problem{Alignment: opt.Alignment},
	}
	blocks := l.Blocks
	recorded := make([]int, len(blocks)) // by block of the plan
	var scratch alloc.Problem
	events := t.events()
	for i, r := range run {
		t.Over[i] = none
		b := alloc.Buffer{ID: fmt.Sprint(i), Size: r.Bytes, First: r.Begin, Last: len(events) - 1}
		if r.End != none {
			b.Last = r.End - 1
		}
		k := match[i]
		if k != none {
			recorded[k] = i
		}
		if t.of[i] = none; r.End == none && !opt.Results {
			continue
		}
		if k == none || blocks[k].Offset == none {
			scratch.Buffers = append(scratch.Buffers, b)
		} else {
			t.Tensors++
			b.Fixed = &blocks[k].Offset
			if over := blocks[k].Over; over != none {
				t.Over[i] = recorded[over]
				t.InPlace++
				t.of[i] = t.of[t.Over[i]]
				t.Problem.Buffers[t.of[i]].Last = b.Last
				continue
			}
		}
		t.of[i] = len(t.Problem.Buffers)
		t.Problem.Buffers = append(t.Problem.Buffers, b)
	}
	scratch.Alignment = opt.Alignment
	t.Scratch = scratch.MaxLoad()
	anew := alloc.Problem{Alignment: opt.Alignment, Buffers: slices.Clone(t.Problem.Buffers)}
	for i := range anew.Buffers {
		anew.Buffers[i].Fixed = nil
	}
	if t.Problem.Validate() != nil {
		t.Moved, t.Problem = true, anew // the runtime keeps a block longer than the plan
	}
	var err error
	if t.Result, err = alloc.Solve(ctx, t.Problem, opt.Alloc); err != nil {
		return nil, err
	}
	if !t.Moved && t.Result.Arena > t.Problem.MaxLoad() {
		r, err := alloc.Solve(ctx, anew, opt.Alloc)
		if err != nil {
			return nil, err
		}
		if r.Arena < t.Result.Arena {
			t.Moved, t.Problem, t.Result = true, anew, r
		}
	}
	if err := t.Problem.CheckSweep(t.Result.Placement); err != nil {
		return nil, fmt.Errorf("internal error in placement by %s: %w", t.Result.Strategy, err)
	}
	for i := range run {
		if t.Offsets[i] = none; t.of[i] != none {
			t.Offsets[i] = t.Result.Offsets[t.of[i]]
		}
	}
	return t, nil
}

// events returns the events of the run: a block that is allocated, or ^block of one that
// is freed.
func (t *Table) events() []int {
	n := 0
	for _, r := range t.Run {
		n = max(n, r.Begin+1, r.End+1)
	}
	events := make([]int, n)
	for i, r := range t.Run {
		events[r.Begin] = i
		if r.End != none {
			events[r.End] = ^i
		}
	}
	return events
}

// Write writes the table for an allocator.
//
//	onnxmem/replay 2
//	alignment 64
//	arena 192
//	lower_bound 192
//	scratch 64
//	events 7
//	alloc 0 100 0 0
//	alloc 1 50 128 0
//	free 1
//	alloc 2 100 0 0 0
//	alloc 3 64 - 0
//	free 0
//	free 2
//
// It is [trace.Packed.WriteReplay]'s with these differences. It has all events of the run,
// and its blocks are numbered in the order of their allocation. A block outside of the arena
// has the offset -. A fifth number is the block that a block is written over. That one is
// live, and the next free at its address is its own.
func (t *Table) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	events := t.events()
	fmt.Fprintf(out, "onnxmem/replay 2\nalignment %d\narena %d\nlower_bound %d\nscratch %d\nevents %d\n", t.Alignment, t.Result.Arena, t.Problem.MaxLoad(), t.Scratch, len(events))
	for _, e := range events {
		if e < 0 {
			fmt.Fprintf(out, "free %d\n", ^e)
			continue
		}
		offset := "-"
		if t.Offsets[e] != none {
			offset = strconv.FormatInt(t.Offsets[e], 10)
		}
		fmt.Fprintf(out, "alloc %d %d %s 0", e, t.Run[e].Bytes, offset)
		if t.Over[e] != none {
			fmt.Fprintf(out, " %d", t.Over[e])
		}
		fmt.Fprintln(out)
	}
	return out.Flush()
}
