package core_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
	"github.com/onnxmem/onnxmem/plan/verify/internal/core/coretest"
)

// placed is a problem with its buffers and their offsets.
type placed struct {
	*core.Problem
	buffers []core.Buffer
	offsets []int64
}

// draw draws buffers: each storage in one of its own, or over another of its size, and the
// buffers at offsets that fit, or nearly.
func draw(r *rand.Rand) placed {
	x := placed{Problem: coretest.Random(r, 2+r.IntN(6))}
	x.Updated = nil
	for i := range x.Storages {
		st := &x.Storages[i]
		if st.Update {
			st.Resident, st.Update = false, false
		}
		var over []int // buffers that it may take over
		for k := range x.buffers {
			last := x.buffers[k].Storages[len(x.buffers[k].Storages)-1]
			if x.Storages[last].Bytes == st.Bytes && st.Maker >= 0 && (slices.Contains(x.Nodes[st.Maker].Over, core.Pair{Result: int32(i), Over: last}) || r.IntN(20) == 0) {
				over = append(over, k)
			}
		}
		if len(over) > 0 && r.IntN(3) > 0 {
			b := &x.buffers[over[r.IntN(len(over))]]
			b.Storages = append(b.Storages, int32(i))
			continue
		}
		x.buffers = append(x.buffers, core.Buffer{Known: true, Storages: []int32{int32(i)}})
	}
	return x
}

// accepted asks the core, and returns the loads and the end of the last buffer. It sets
// offsets between: each the least that fits, and some of them another.
func (x *placed) accepted(r *rand.Rand) (loads []int64, arena int64, ok bool) {
	ok = true
	for k := range x.buffers {
		ok = len(x.Hold(&x.buffers[k])) == 0 && ok
	}
	var extents []core.Extent
	for k := range x.buffers {
		b, at := &x.buffers[k], int64(0)
		for again := true; again; {
			again = false
			for j := range extents {
				if e := &extents[j]; x.buffers[j].First <= b.Last && b.First <= x.buffers[j].Last && at < e.End && e.Offset < at+b.Bytes {
					at, again = e.End, true
				}
			}
		}
		if r.IntN(30) == 0 {
			at = 64 * r.Int64N(6)
		}
		x.offsets, arena = append(x.offsets, at), max(arena, at+b.Bytes)
		extents = append(extents, core.Extent{Offset: at, End: at + b.Bytes, First: b.First, Last: b.Last})
	}
	core.Overlap(slices.DeleteFunc(extents, func(e core.Extent) bool { return e.Offset == e.End }), func(int, int) { ok = false })
	return x.Loads(x.buffers), arena, ok
}

// run runs the nodes over memory of which each byte says which storage lies there. It says
// what goes wrong; "": nothing does.
func (x *placed) run() string {
	where := make([]int, len(x.Storages))
	end := int64(0)
	for k := range x.buffers {
		for _, i := range x.buffers[k].Storages {
			where[i] = k
		}
		end = max(end, x.offsets[k]+x.buffers[k].Bytes)
	}
	memory := make([]int32, end/64) // all sizes are multiples of 64
	of := func(i int32) []int32 {
		at := x.offsets[where[i]] / 64
		return memory[at : at+x.Storages[i].Bytes/64]
	}
	write := func(i int32) {
		for k := range of(i) {
			of(i)[k] = 1 + i
		}
	}
	intact := func(i int32) bool { return !slices.ContainsFunc(of(i), func(have int32) bool { return have != 1+i }) }
	for i := range x.Storages {
		if x.Storages[i].Maker < 0 {
			write(int32(i))
		}
	}
	for n := range x.Nodes {
		node := &x.Nodes[n]
		for _, i := range node.Reads {
			if !intact(i) {
				return fmt.Sprintf("node %d reads storage %d, of which bytes are lost", n, i)
			}
		}
		for _, result := range node.Writes {
			write(result)
		}
		for _, result := range node.Writes {
			if !intact(result) {
				return fmt.Sprintf("node %d loses bytes of storage %d, which it makes", n, result)
			}
			// A node may write a result before it has read all of its operands, unless it may
			// write over one.
			for _, i := range node.Reads {
				if !intact(i) && slices.Contains(of(i), 1+result) && !slices.Contains(node.Over, core.Pair{Result: result, Over: i}) {
					return fmt.Sprintf("node %d writes storage %d over storage %d", n, result, i)
				}
			}
		}
	}
	for i := range x.Storages {
		if st := &x.Storages[i]; (st.Output || st.Resident) && !intact(int32(i)) {
			return fmt.Sprintf("storage %d is lost at the end", i)
		}
	}
	return ""
}

// TestAcceptedPlansRun: in what the core accepts, no node reads bytes that another has
// overwritten, and no step needs more than its load. What it refuses goes wrong now and then.
func TestAcceptedPlansRun(t *testing.T) {
	accepted, chained, wrong, refused := 0, 0, 0, 0
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 10))
		x := draw(r)
		loads, arena, ok := x.accepted(r)
		fault := x.run()
		if !ok {
			if refused++; fault != "" {
				wrong++
			}
			continue
		}
		accepted++
		if fault != "" {
			t.Fatalf("seed %d: accepted, but %s\n%+v\n%v", seed, fault, *x.Problem, x.buffers)
		}
		if slices.ContainsFunc(x.buffers, func(b core.Buffer) bool { return len(b.Storages) > 1 && b.Bytes > 0 }) {
			chained++
		}
		for n, load := range loads {
			live := int64(0)
			for k := range x.buffers {
				b := &x.buffers[k]
				if !b.Resident && slices.ContainsFunc(b.Storages, func(i int32) bool {
					first, last := x.Lifetime(i, nil)
					return first <= n && n <= last
				}) {
					live += b.Bytes
				}
			}
			if live != load || load > arena {
				t.Fatalf("seed %d: step %d: a load of %d bytes, expected %d, at most the arena of %d", seed, n, load, live, arena)
			}
		}
	}
	t.Logf("%d accepted, %d of them with results over operands; %d refused, of which %d go wrong", accepted, chained, refused, wrong)
	if accepted < 5000 || chained < 1000 || wrong < 1000 {
		t.Error("too few cases are tested")
	}
}
