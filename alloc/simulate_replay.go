package alloc

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"

	"github.com/onnxmem/onnxmem/internal/units"
)

// Request is what a program asks of an allocator: Size bytes for a block, or its free.
type Request struct {
	Block int   // its number; each allocation has another one
	Size  int64 // bytes; of an allocation
	Free  bool
}

// Replayer simulates an allocator that gives out places from a plan, made from earlier
// runs of the same program, while the runs change their shapes: the scheme of Sekiyama
// et al. 2018, section 4, and of a runtime that knows the shapes of its inputs.
//
// The requests of a run are followed along the plan. A request that is not larger than
// the planned one gets its place, if nothing lives there. Any other request interrupts
// the plan: it is served by the fallback, which returns memory at once, so that it
// takes only live bytes. The plan resumes at the next request that fits it.
//
// A block that outlives its run is left to the fallback, too, as in the paper, which
// optimizes what is released by the end of each propagation.
//
// The paper interrupts where the program says so, and lets blocks rely on their number
// in the run. Here both are found out: a place is given out only if it is free, so a
// run that deviates costs bytes and is never wrong.
type Replayer struct {
	Name string
	Doc  string // its rule, in a line

	// Patience is the number of runs in a row that must deviate from their plan, in the same
	// way or not, before the last of them gives a new plan. 0: the first plan is kept for
	// ever.
	Patience int
	// Larger: a run deviates only if a request is larger than planned or beyond the
	// plan, as in section 4.3; else also if it is smaller.
	Larger bool
	// Merge: the new plan is for the largest sizes and the longest lifetimes so far, by
	// the number of the request in the run; else for the last run alone.
	Merge bool
	// Plans is the number of plans that are kept, one for each kind of run; the least
	// recently used goes. Runs with the same requests are of one kind, as a runtime can
	// tell by the shapes of their inputs before they begin. 0: one plan for all runs.
	Plans int
	// Ahead is the number of requests that the plan may be ahead of the run where it
	// resumes.
	Ahead int
	// Holes: the fallback takes the smallest range of the arena where nothing lives and
	// the request fits, the lowest of equal ones, and memory of its own only if there is
	// none. Such a block may lie where the plan wants to put a later one.
	Holes bool
}

// Replayers lists the schemes that are compared.
var Replayers = []Replayer{
	{Name: "first-plan", Doc: "the plan of the first run, for ever", Ahead: 64},
	{Name: "reoptimize", Doc: "a new plan after a run with a larger request, for the largest sizes so far (Sekiyama et al. 2018)", Patience: 1, Larger: true, Merge: true},
	{Name: "reoptimize-last", Doc: "the same for the sizes of that run alone", Patience: 1, Larger: true},
	{Name: "lasting", Doc: "a new plan after two runs in a row that deviate, for the last one", Patience: 2, Ahead: 64},
	{Name: "lasting-holes", Doc: "the same; what deviates takes holes of the arena first", Patience: 2, Ahead: 64, Holes: true},
	{Name: "kinds", Doc: "a plan for each of the last eight kinds of runs", Patience: 1, Plans: 8, Ahead: 64},
	{Name: "kinds-holes", Doc: "the same; what deviates takes holes of the arena first", Patience: 1, Plans: 8, Ahead: 64, Holes: true},
}

// ReplayResult is what a [Replayer] needs for a stream.
type ReplayResult struct {
	Requests  int   // allocations of more than 0 bytes, but for those that the plan leaves to the fallback
	Hits      int   // of those, the ones that get a planned place
	Deviating int   // runs with a request that gets none, the first runs of a plan included
	Plans     int   // plans made
	Arena     int64 // bytes: the largest arena
	Fallback  int64 // bytes: the most that is live outside of the arena
	Peak      int64 // bytes: the most that both take together
}

// HitRate is the share of the requests that get a planned place, from 0 to 1.
func (r *ReplayResult) HitRate() float64 { return float64(r.Hits) / float64(max(1, r.Requests)) }

// Add adds the result of another stream of the same runs.
func (r *ReplayResult) Add(o ReplayResult) {
	r.Requests, r.Hits, r.Plans = r.Requests+o.Requests, r.Hits+o.Hits, r.Plans+o.Plans
	r.Deviating = max(r.Deviating, o.Deviating)
	r.Arena, r.Fallback, r.Peak = units.Add(r.Arena, o.Arena), units.Add(r.Fallback, o.Fallback), units.Add(r.Peak, o.Peak)
}

// replayPlan is the plan for a kind of runs.
type replayPlan struct {
	slots     []replaySlot
	arena     int64
	deviating int // runs in a row
	used      int // the last run that used it
}

// replaySlot is a planned block. Time is counted in requests of the run.
type replaySlot struct {
	size   int64
	last   int // the number of allocations in the run before its free
	offset int64
	stays  bool // it outlives the run
}

// Run follows a stream, given by runs. Sizes are rounded up to multiples of alignment.
// A block may be freed in a later run. The plans are made between two runs.
func (r Replayer) Run(ctx context.Context, runs [][]Request, alignment int64) (ReplayResult, error) {
	s := replaying{Replayer: r, ctx: ctx, alignment: alignment, plans: map[string]*replayPlan{}, live: map[int]replayBlock{}}
	for i, run := range runs {
		if err := s.run(i, run); err != nil {
			return ReplayResult{}, err
		}
	}
	return s.result, nil
}

// replaying is the state of a simulation.
type replaying struct {
	Replayer
	ctx       context.Context
	alignment int64
	plans     map[string]*replayPlan
	live      map[int]replayBlock
	places    []replayBlock // in the arena, by offset
	fallback  int64         // live bytes outside
	result    ReplayResult
	after     func() // called after each change, in tests
}

// replayBlock is a live block.
type replayBlock struct {
	offset, size int64
	planned      bool // it lies in the arena
}

// run follows one run, then makes a plan if one is due.
func (s *replaying) run(number int, requests []Request) error {
	kind := ""
	if s.Plans > 0 {
		kind = kindOf(requests)
	}
	plan := s.plans[kind]
	next, observed, deviates := 0, []replaySlot(nil), plan == nil
	misses := 0 // in a row
	missed := plan == nil
	index := map[int]int{} // of the blocks of this run
	for _, q := range requests {
		if q.Free {
			if i, ok := index[q.Block]; ok {
				observed[i].last = max(i, len(observed)-1)
			}
			s.free(q.Block)
			continue
		}
		size := roundUp(q.Size, s.alignment)
		index[q.Block] = len(observed)
		observed = append(observed, replaySlot{size: size, last: -1})
		if size == 0 {
			next++
			continue
		}
		at := -1
		if plan != nil {
			at = s.match(plan, next, size)
		}
		if at >= 0 && plan.slots[at].stays {
			deviates = deviates || at != next
			s.take(q.Block, replayBlock{size: size}, plan)
			next, misses = at+1, 0
			continue
		}
		s.result.Requests++
		if at < 0 {
			missed = true
			deviates = true
			s.take(q.Block, s.hole(plan, size), plan)
			if misses++; misses > s.Ahead {
				next++ // it does not resume here
			}
			continue
		}
		deviates = deviates || at != next || !s.Larger && plan.slots[at].size != size
		s.result.Hits++
		s.take(q.Block, replayBlock{plan.slots[at].offset, size, true}, plan)
		next, misses = at+1, 0
	}
	if plan != nil && !s.Larger && next < len(plan.slots) {
		deviates = true
	}
	for i := range observed {
		if observed[i].last < 0 { // not freed in this run
			observed[i].last, observed[i].stays = len(observed)-1, true
		}
	}
	if missed {
		s.result.Deviating++
	}
	return s.replan(number, kind, observed, deviates)
}

// match returns the slot for a request: the next one, or, if that does not fit, the
// first of the following with the same size. -1: none.
func (s *replaying) match(p *replayPlan, next int, size int64) int {
	if next < len(p.slots) && (p.slots[next].stays || p.slots[next].size >= size && s.vacant(p.slots[next].offset, size)) {
		return next
	}
	for i := next + 1; i < min(next+1+s.Ahead, len(p.slots)); i++ {
		if p.slots[i].size == size && (p.slots[i].stays || s.vacant(p.slots[i].offset, size)) {
			return i
		}
	}
	return -1
}

// vacant reports whether no live block has a byte of [offset, offset+size).
func (s *replaying) vacant(offset, size int64) bool {
	i, _ := slices.BinarySearchFunc(s.places, offset+size, func(b replayBlock, end int64) int { return cmp.Compare(b.offset, end) })
	return i == 0 || s.places[i-1].offset+s.places[i-1].size <= offset
}

// hole returns a block outside of the arena, or, if the scheme allows it, in the smallest
// range of the arena that is large enough.
func (s *replaying) hole(p *replayPlan, size int64) replayBlock {
	b := replayBlock{size: size}
	if !s.Holes {
		return b
	}
	arena := s.arena(p)
	least, from := int64(math.MaxInt64), int64(0)
	try := func(to int64) {
		if room := to - from; room >= size && room < least {
			b.offset, b.planned, least = from, true, room
		}
	}
	for _, o := range s.places {
		try(o.offset)
		from = o.offset + o.size
	}
	try(arena)
	return b
}

// arena returns the size of the arena in a run with a plan, or without one: that of the
// largest plan, or to the end of the blocks of an earlier plan that are still live.
func (s *replaying) arena(p *replayPlan) (bytes int64) {
	if p != nil {
		bytes = p.arena
	}
	for _, other := range s.plans { // their number is small
		bytes = max(bytes, other.arena)
	}
	if n := len(s.places); n > 0 {
		bytes = max(bytes, s.places[n-1].offset+s.places[n-1].size)
	}
	return bytes
}

// take makes a block live.
func (s *replaying) take(block int, b replayBlock, p *replayPlan) {
	s.live[block] = b
	if b.planned {
		i, _ := slices.BinarySearchFunc(s.places, b.offset, func(o replayBlock, at int64) int { return cmp.Compare(o.offset, at) })
		s.places = slices.Insert(s.places, i, b)
	} else {
		s.fallback += b.size
	}
	arena := s.arena(p)
	s.result.Arena = max(s.result.Arena, arena)
	s.result.Fallback = max(s.result.Fallback, s.fallback)
	s.result.Peak = max(s.result.Peak, arena+s.fallback)
	if s.after != nil {
		s.after()
	}
}

func (s *replaying) free(block int) {
	b, ok := s.live[block]
	if !ok {
		return
	}
	delete(s.live, block)
	if !b.planned {
		s.fallback -= b.size
		return
	}
	i, _ := slices.BinarySearchFunc(s.places, b.offset, func(o replayBlock, at int64) int { return cmp.Compare(o.offset, at) })
	s.places = slices.Delete(s.places, i, i+1)
}

// replan makes a new plan from what was observed in a run, if one is due.
func (s *replaying) replan(number int, kind string, observed []replaySlot, deviates bool) error {
	plan := s.plans[kind]
	switch {
	case plan == nil:
		plan = &replayPlan{}
	case !deviates:
		plan.deviating = 0
		plan.used = number
		return nil
	default:
		plan.deviating++
		plan.used = number
		if s.Patience == 0 || plan.deviating < s.Patience {
			return nil
		}
	}
	if s.Merge {
		for i, old := range plan.slots {
			if i == len(observed) {
				observed = append(observed, plan.slots[i:]...)
				break
			}
			slot := &observed[i]
			slot.size, slot.last, slot.stays = max(slot.size, old.size), max(slot.last, old.last), slot.stays || old.stays
		}
	}
	p := Problem{Alignment: s.alignment}
	for i, slot := range observed {
		if slot.stays {
			slot.size = 0 // it takes no place
		}
		p.Buffers = append(p.Buffers, Buffer{Size: slot.size, First: i, Last: slot.last})
	}
	found, err := Solve(s.ctx, p, Options{Effort: EffortFast})
	if err != nil {
		return err
	}
	for i := range observed {
		observed[i].offset = found.Offsets[i]
	}
	s.plans[kind] = &replayPlan{slots: observed, arena: found.Arena, used: number}
	s.result.Plans++
	for len(s.plans) > max(1, s.Plans) {
		oldest := kind
		for k, p := range s.plans {
			if p.used < s.plans[oldest].used {
				oldest = k
			}
		}
		delete(s.plans, oldest)
	}
	return nil
}

// kindOf is equal for runs with the same requests, whatever the numbers of blocks are.
// Blocks that begin or end in another run are left out: they may be the inputs of that.
func kindOf(requests []Request) string {
	index, ends := map[int]int{}, map[int]bool{}
	for _, q := range requests {
		if q.Free {
			ends[q.Block] = true
		}
	}
	var b []byte
	n := 0
	for _, q := range requests {
		at, known := index[q.Block]
		switch {
		case !q.Free && !ends[q.Block], q.Free && !known:
			continue
		case q.Free:
			b = strconv.AppendInt(b, int64(at-n), 10)
		default:
			index[q.Block] = n
			b = strconv.AppendInt(append(b, '+'), q.Size, 10)
		}
		n++
	}
	return string(b)
}
