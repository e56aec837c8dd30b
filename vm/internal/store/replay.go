package store

import (
	"context"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/alloc"
	rules "github.com/onnxmem/onnxmem/internal/replay"
)

// replay gives what runs take from the side pool places in one arena. The first run is
// recorded; its blocks are packed, and later runs get the places of the recorded ones
// (Sekiyama et al. 2018, section 4: profile-guided memory allocation).
//
// Sizes depend on data, and so may the blocks that there are. Blocks are known by their names
// (package replay has the rule). One that is larger than recorded, or that the script does not
// have, comes from the pool as if there were none. After a run with such blocks, the next run
// begins with a new script, made from the old one and from that run (the paper's
// reoptimization). No place is given out while a byte of it is in use, so a wrong script costs
// memory and nothing else.
type replay struct {
	pool *SidePool

	script *rules.Plan[string] // in the order in which a run takes them; nil: there is none
	walk   *rules.Walk[string] // of this run, along the script; nil: there is none
	arena  *Block
	live   rules.Live // of the arena, in use
	run    recorded
	use    Use

	wait, pause int   // runs before another script is made, and the pause after that one
	quiet       int   // runs without a miss since they were last compared with the arena
	largest     int64 // the most bytes that one of them had in use
}

// scripted is a block that runs take.
type scripted = rules.Block[string]

// recorded is what one run takes.
type recorded struct {
	on, done bool // it is going on; it went to its end
	overflow bool // it takes more than mostScripted blocks, and is no longer recorded
	taken    []scripted
	entry    []int                  // of the script, for each of taken; -1: none
	open     map[unsafe.Pointer]int // those in use, as indices of taken
	misses   int
	now, top int64 // bytes in use, and the most of them so far
}

// Use says how the blocks of a pool were placed.
type Use struct {
	ArenaBytes int64 // one arena for them; 0: none yet, or it would not be smaller
	LowerBound int64 // bytes: proven, no arena for the recorded blocks is smaller
	Hits       int   // blocks with a place in the arena, in all runs
	Misses     int   // blocks without one, in runs that had an arena
	Plans      int   // arenas made
}

// Add adds the use of another pool.
func (u *Use) Add(v Use) {
	u.ArenaBytes += v.ArenaBytes
	u.LowerBound += v.LowerBound
	u.Hits += v.Hits
	u.Misses += v.Misses
	u.Plans += v.Plans
}

const (
	mostScripted = 1 << 14 // blocks
	quietRuns    = 32      // runs between two comparisons of the arena with its use
	longestPause = 64      // runs
)

// any reports whether blocks of the recorded run are in use.
func (r *replay) any() bool { return r != nil && len(r.run.open) > 0 }

// lasts reports whether a block of the recorded run is in use.
func (r *replay) lasts(b []byte) bool {
	if r == nil || b == nil {
		return false
	}
	_, is := r.run.open[unsafe.Pointer(unsafe.SliceData(b))]
	return is
}

// begin begins to record a run. No block of the last one is in use.
func (r *replay) begin() error {
	if r == nil {
		return nil
	}
	err := r.learn()
	clear(r.run.open)
	r.run = recorded{on: true, taken: r.run.taken[:0], entry: r.run.entry[:0], open: r.run.open}
	if r.walk != nil {
		r.walk.Reset()
	}
	return err
}

// end ends the record of a run that went to its end. The blocks of its outputs are in use.
func (r *replay) end() {
	if r == nil {
		return
	}
	r.run.on, r.run.done = false, !r.run.overflow
	for _, i := range r.run.open {
		r.run.taken[i].Last = len(r.run.taken) - 1
	}
}

// fail drops the record of a run that failed, and whose blocks are all free.
func (r *replay) fail() {
	if r == nil {
		return
	}
	r.run.on, r.run.done = false, false
	r.live.Clear()
	clear(r.run.open)
}

// place returns a place for the next block, or nil, and the entry of the script that it
// is, or -1.
func (r *replay) place(what string, bytes int64) ([]byte, int) {
	if r == nil || !r.run.on || r.walk == nil {
		return nil, -1
	}
	i := r.walk.Find(what)
	if i < 0 {
		r.miss()
		return nil, -1
	}
	e := &r.script.Blocks[i]
	// What is in use may live longer than when it was recorded.
	if bytes > e.Size || !r.live.Take(e.Offset, bytes) {
		r.miss()
		return nil, i
	}
	r.use.Hits++
	return r.arena.Bytes[e.Offset:][:bytes:bytes], i
}

func (r *replay) miss() {
	r.run.misses++
	r.use.Misses++
}

// took records a block that place was asked for.
func (r *replay) took(what string, b []byte, entry int) {
	if r == nil || !r.run.on || r.run.overflow {
		return
	}
	run := &r.run
	if len(run.taken) == mostScripted {
		run.overflow = true
		return
	}
	if run.open == nil {
		run.open = map[unsafe.Pointer]int{}
	}
	run.open[unsafe.Pointer(unsafe.SliceData(b))] = len(run.taken)
	run.taken = append(run.taken, scripted{Key: what, Size: int64(len(b)), Last: len(run.taken)})
	run.entry = append(run.entry, entry)
	run.now += int64(len(b))
	run.top = max(run.top, run.now)
}

// gave records that a block was given back, and reports whether it has a place in the
// arena.
func (r *replay) gave(at unsafe.Pointer) bool {
	if r == nil {
		return false
	}
	if i, is := r.run.open[at]; is {
		r.run.taken[i].Last = len(r.run.taken) - 1
		r.run.now -= r.run.taken[i].Size
		delete(r.run.open, at)
	}
	if r.arena == nil || uintptr(at)-uintptr(r.arena.Base) >= uintptr(len(r.arena.Bytes)) {
		return false
	}
	r.live.Free(int64(uintptr(at) - uintptr(r.arena.Base)))
	return true
}

// learn makes a new script if the last run asks for one. No block of the run is in use.
func (r *replay) learn() error {
	run := &r.run
	switch {
	case run.overflow:
		return r.forget()
	case !run.done || len(run.taken) == 0 || r.live.Len() > 0:
		return nil
	case r.script == nil || run.misses > 0:
		if r.wait > 0 {
			r.wait--
			return nil
		}
		// Where every run differs, ever fewer of them have a script made.
		r.wait = r.pause
		r.pause = min(max(1, 2*r.pause), longestPause)
		return r.make(r.merged())
	}
	r.wait, r.pause = 0, 0
	r.quiet++
	r.largest = max(r.largest, run.top)
	if r.quiet < quietRuns {
		return nil
	}
	lasting := r.largest < r.use.ArenaBytes/2
	r.quiet, r.largest = 0, 0
	if !lasting {
		return nil
	}
	return r.make(slices.Clone(run.taken))
}

// merged returns a script of the old one and the last run.
func (r *replay) merged() []scripted {
	if r.script == nil {
		return slices.Clone(r.run.taken)
	}
	merged := rules.Merge(r.script.Blocks, r.run.taken, r.run.entry, grown)
	if len(merged) > mostScripted {
		return slices.Clone(r.run.taken)
	}
	return merged
}

// grown rounds a size up by at most an eighth, so that a size that grows from run to run
// has few scripts made.
func grown(bytes int64) int64 {
	unit := int64(1) << max(6, bits.Len64(uint64(bytes))-4)
	return roundSide(bytes) + (unit-roundSide(bytes)%unit)%unit
}

// make packs a script and gives it an arena, if that is smaller than what it replaces.
func (r *replay) make(script []scripted) error {
	p := alloc.Problem{Alignment: 64, Buffers: make([]alloc.Buffer, len(script))}
	for i, b := range script {
		p.Buffers[i] = alloc.Buffer{Size: b.Size, First: i, Last: b.Last}
	}
	found, err := alloc.Solve(context.Background(), p, alloc.Options{Effort: alloc.EffortFast})
	if err != nil {
		return err
	}
	has := r.use.ArenaBytes
	for _, b := range r.pool.free {
		has += int64(len(b))
	}
	if found.Arena >= has {
		r.wait = longestPause
		return nil
	}
	if err := r.forget(); err != nil {
		return err
	}
	if err := r.pool.drop(); err != nil {
		return err
	}
	if r.pool.Mem.Take(found.Arena) != nil {
		return nil // another session has taken the memory: runs take their blocks one by one
	}
	if r.arena, err = NewBlock(found.Arena, "the arena of dynamic tensors"); err != nil {
		r.pool.Mem.Give(found.Arena)
		return err
	}
	r.pool.Total += found.Arena
	for i := range script {
		script[i].Offset = found.Offsets[i]
	}
	r.script = rules.NewPlan(script)
	r.walk = rules.NewWalk(r.script, 0)
	r.use.ArenaBytes, r.use.LowerBound = found.Arena, found.LowerBound
	r.use.Plans++
	return nil
}

// idle reports whether there is an arena of which nothing is in use.
func (r *replay) idle() bool { return r != nil && r.arena != nil && r.live.Len() == 0 }

// forget frees the arena.
func (r *replay) forget() error {
	if r == nil || r.arena == nil {
		return nil
	}
	err := r.arena.Free()
	r.pool.Total -= r.use.ArenaBytes
	r.pool.Mem.Give(r.use.ArenaBytes)
	r.use.ArenaBytes, r.use.LowerBound = 0, 0
	r.arena, r.script, r.walk = nil, nil, nil
	r.live.Clear()
	return err
}
