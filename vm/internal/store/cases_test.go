package store

import (
	"slices"
	"strconv"
	"testing"
	"unsafe"

	"github.com/onnxmem/onnxmem/internal/replay/cases"
)

// padding is free memory of the pool that each plan of a case replaces: an arena is made only if
// it is smaller than that.
const padding = 1 << 20

// casePool is the pool of a case, with its blocks in use.
type casePool struct {
	*SidePool
	open map[int][]byte // by block
}

// begin begins a run. The pool makes a plan as soon as a run has missed, without a pause.
func (p *casePool) begin(t *testing.T) {
	t.Helper()
	p.replay.wait, p.replay.pause = 0, 0
	if err := p.Mem.Take(padding); err != nil {
		t.Fatal(err)
	}
	p.Total += padding
	p.free = append(p.free, make([]byte, padding))
	if err := p.Begin(); err != nil {
		t.Fatal(err)
	}
}

// take takes a block, and returns which place it has.
func (p *casePool) take(t *testing.T, e cases.Event) string {
	t.Helper()
	before := p.replay.use
	b, err := p.Take(e.Key(), e.Size)
	if err != nil {
		t.Fatal(err)
	}
	p.open[e.Block] = b
	use, arena := p.replay.use, p.replay.arena
	switch {
	case use.Misses > before.Misses:
		return "miss"
	case use.Hits == before.Hits:
		return "new"
	}
	i := p.replay.run.entry[len(p.replay.run.entry)-1]
	at := int64(uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(arena.Base))
	if planned := p.replay.script.Blocks[i].Offset; at != planned {
		t.Errorf("%s lies at %d, expected %d", e.Name, at, planned)
	}
	return strconv.Itoa(i)
}

// plan gives the blocks of the plan that the run has begun with the places of the case.
func (p *casePool) plan(t *testing.T, c *cases.Plan) {
	t.Helper()
	r := p.replay
	if r.script == nil || len(c.Offsets) != len(r.script.Blocks) {
		t.Fatalf("a plan of %+v, expected %d blocks", r.script, len(c.Offsets))
	}
	made, err := NewBlock(c.Arena, "the arena of a case")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.arena.Free(); err != nil {
		t.Fatal(err)
	}
	p.Total += c.Arena - r.use.ArenaBytes
	p.Mem.Give(r.use.ArenaBytes)
	if err := p.Mem.Take(c.Arena); err != nil {
		t.Fatal(err)
	}
	r.arena, r.use.ArenaBytes = made, c.Arena
	for i, offset := range c.Offsets {
		r.script.Blocks[i].Offset = offset
	}
}

// TestReplayCases: the pool gives out the places that testdata/replay/cases.txt says, and
// makes a plan when it says so. What a run leaves in use is given back when the next begins.
func TestReplayCases(t *testing.T) {
	for _, c := range cases.Read(t, "../../../testdata/replay/cases.txt", "vm") {
		p := &casePool{poolFor(1 << 30), map[int][]byte{}}
		var due *cases.Plan
		for number, run := range c.Runs {
			first := slices.IndexFunc(run.Events, func(e cases.Event) bool { return !e.Free })
			for _, e := range run.Events[:first] {
				p.Give(p.open[e.Block])
			}
			plans := p.replay.use.Plans
			p.begin(t)
			if made := p.replay.use.Plans > plans; made != (due != nil) {
				t.Fatalf("%s, run %d: a plan was made: %t", c.Name, number+1, made)
			}
			if due != nil {
				p.plan(t, due)
			}
			for _, e := range run.Events[first:] {
				if e.Free {
					p.Give(p.open[e.Block])
				} else if got, want := p.take(t, e), e.Answer("name"); got != want {
					t.Errorf("%s, run %d: %s of %d bytes: %s, expected %s", c.Name, number+1, e.Name, e.Size, got, want)
				}
			}
			p.End()
			due = run.Plan("name")
		}
	}
}
