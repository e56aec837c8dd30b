package alloc

import (
	"context"
	"strconv"

	"github.com/onnxmem/onnxmem/internal/replay"
	"github.com/onnxmem/onnxmem/internal/units"
)

// Request is what a program asks of an allocator: Size bytes for a block, or its free.
type Request struct {
	Block int    // its number; each allocation has another one
	Size  int64  // bytes; of an allocation
	Name  string // of an allocation, if the program tells: see ByName
	Free  bool
}

// Identity is how a request is known for a block of a plan.
type Identity int

const (
	ByNumber Identity = iota // the next block, as in Sekiyama et al. 2018
	BySize                   // a block of that size nearby
	ByName                   // a block of that name
)

// Replayer simulates an allocator that gives out places from a plan, made from earlier
// runs of the same program, while the runs change their shapes: the scheme of Sekiyama
// et al. 2018, section 4, and of a runtime that knows the shapes of its inputs.
//
// The requests of a run are followed along the plan: each is one of its blocks, or none. It
// gets the place of its block if it is not larger than that, and nothing lives there. Any
// other request is a miss: it is served by the fallback, which returns memory at once, so
// that it takes only live bytes. docs/design/replaying.md is the rule.
//
// The paper interrupts where the program says so, and lets blocks rely on their number
// in the run. Here both are found out: a place is given out only if it is free, so a
// run that deviates costs bytes and is never wrong.
type Replayer struct {
	Name string
	Doc  string // its rule, in a line

	By Identity
	// Smaller: a request of which no block nearby has the size is the next one, if it is not
	// larger than that. For allocators that do not know the shapes of a run beforehand.
	Smaller bool
	// Outputs: a block that outlives its run has a place to the end of the run, for programs
	// that free it before the next run; else it is left to the fallback, as in the paper,
	// which optimizes what is released by the end of each propagation.
	Outputs bool
	// Patience is the number of runs in a row that must deviate from their plan, in the same
	// way or not, before the last of them gives a new plan. 0: the first plan is kept for
	// ever.
	Patience int
	// Larger: a run deviates only if it misses, as in section 4.3; else also if its sizes,
	// its order or the number of its blocks differ.
	Larger bool
	// Merge: the new plan is for the largest sizes and the longest lifetimes of the plan
	// before and the run; else for the run alone.
	Merge bool
	// Plans is the number of plans that are kept, one for each kind of run; the least
	// recently used goes. Runs with the same requests are of one kind, as a runtime can
	// tell by the shapes of their inputs before they begin. 0: one plan for all runs.
	Plans int
	// Holes: the fallback takes the smallest range of the arena where nothing lives and
	// the request fits, the lowest of equal ones, and memory of its own only if there is
	// none. Such a block may lie where the plan wants to put a later one.
	Holes bool
}

// Replayers lists the schemes that are compared.
var Replayers = []Replayer{
	{Name: "first-plan", Doc: "the plan of the first run, for ever", By: BySize, Smaller: true},
	{Name: "reoptimize", Doc: "a new plan after a run with a larger request, for the largest sizes so far (Sekiyama et al. 2018)", Patience: 1, Larger: true, Merge: true},
	{Name: "reoptimize-last", Doc: "the same for the sizes of that run alone", Patience: 1, Larger: true},
	{Name: "lasting", Doc: "a new plan after two runs in a row that deviate, for the last one", By: BySize, Smaller: true, Patience: 2},
	{Name: "lasting-holes", Doc: "the same; what deviates takes holes of the arena first", By: BySize, Smaller: true, Patience: 2, Holes: true},
	{Name: "kinds", Doc: "a plan for each of the last eight kinds of runs", By: BySize, Smaller: true, Patience: 1, Plans: 8},
	{Name: "kinds-holes", Doc: "the same; what deviates takes holes of the arena first", By: BySize, Smaller: true, Patience: 1, Plans: 8, Holes: true},
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
	*replay.Plan[replayKey]
	arena     int64
	deviating int // runs in a row
	used      int // the last run that used it
}

// replayKey is what a request is known by; without a name and a size, its number alone.
type replayKey struct {
	name string
	size int64
}

func (by Identity) key(q Request) replayKey {
	switch by {
	case BySize:
		return replayKey{size: q.Size}
	case ByName:
		return replayKey{name: q.Name}
	}
	return replayKey{}
}

// Run follows a stream, given by runs. Sizes are rounded up to multiples of alignment.
// A block may be freed in a later run. The plans are made between two runs.
func (r Replayer) Run(ctx context.Context, runs [][]Request, alignment int64) (ReplayResult, error) {
	s := newReplaying(ctx, r, alignment)
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
	places    replay.Live // in the arena
	fallback  int64       // live bytes outside
	result    ReplayResult
	after     func()                         // called after each change, in tests
	decided   func(answer string, block int) // called with miss, out, new, or the block of a place, in tests
}

func newReplaying(ctx context.Context, r Replayer, alignment int64) *replaying {
	return &replaying{Replayer: r, ctx: ctx, alignment: alignment, plans: map[string]*replayPlan{}, live: map[int]replayBlock{}}
}

// replayBlock is a live block.
type replayBlock struct {
	offset, size int64
	planned      bool // it lies in the arena
}

// replayed is a run so far.
type replayed struct {
	plan     *replayPlan             // nil: none
	walk     *replay.Walk[replayKey] // along the plan
	blocks   []replay.Block[replayKey]
	found    []int       // the planned block of each; -1: none
	index    map[int]int // of the blocks of this run
	missed   bool        // a request had no place
	deviates bool
}

// run follows one run, then makes a plan if one is due.
func (s *replaying) run(number int, requests []Request) error {
	kind := ""
	if s.Plans > 0 {
		kind = kindOf(requests)
	}
	r := &replayed{plan: s.plans[kind], index: map[int]int{}}
	if r.plan != nil {
		r.walk = replay.NewWalk(r.plan.Plan, s.nearby())
	} else {
		r.missed, r.deviates = true, true
	}
	for _, q := range requests {
		if !q.Free {
			s.request(r, q)
			continue
		}
		if i, ok := r.index[q.Block]; ok {
			r.blocks[i].Last, r.blocks[i].Stays = len(r.blocks)-1, false
		}
		s.free(q.Block)
	}
	if r.plan != nil && !s.Larger && r.walk.Next() < len(r.plan.Blocks) {
		r.deviates = true
	}
	for i := range r.blocks {
		if r.blocks[i].Stays {
			r.blocks[i].Last = len(r.blocks) - 1
		}
	}
	if r.missed {
		s.result.Deviating++
	}
	return s.replan(number, kind, r)
}

// nearby returns among how many blocks of a plan a request is looked for.
func (s *replaying) nearby() int {
	if s.By == ByName {
		return 0 // a name tells
	}
	return replay.Nearby
}

// request serves an allocation.
func (s *replaying) request(r *replayed, q Request) {
	key, size, i := s.By.key(q), roundUp(q.Size, s.alignment), -1
	var planned *replay.Block[replayKey]
	if r.plan != nil {
		next := r.walk.Next()
		if i = r.walk.Find(key); i < 0 && s.Smaller {
			i = r.walk.FindSmaller(size)
		}
		if i >= 0 {
			planned = &r.plan.Blocks[i]
		}
		if !s.Larger && (i != next || !planned.Stays && planned.Size != size) {
			r.deviates = true
		}
	}
	r.index[q.Block] = len(r.blocks)
	r.blocks = append(r.blocks, replay.Block[replayKey]{Key: key, Size: size, Stays: true})
	r.found = append(r.found, i)
	if size == 0 {
		return
	}
	b, answer := replayBlock{size: size}, ""
	switch {
	case planned != nil && planned.Stays && !s.Outputs:
		answer = "out"
	case planned != nil && planned.Size >= size && s.places.Take(planned.Offset, size):
		s.result.Requests++
		s.result.Hits++
		b = replayBlock{planned.Offset, size, true}
	default:
		s.result.Requests++
		answer = "miss"
		if r.plan == nil {
			answer = "new"
		}
		r.missed, r.deviates = true, true
		b = s.hole(r.plan, size)
	}
	s.take(q.Block, b, r.plan)
	if s.decided != nil {
		s.decided(answer, i)
	}
}

// hole returns a block outside of the arena, or, if the scheme allows it, in the smallest
// range of the arena that is large enough.
func (s *replaying) hole(p *replayPlan, size int64) replayBlock {
	b := replayBlock{size: size}
	if s.Holes {
		b.offset, b.planned = s.places.Hole(size, s.arena(p))
	}
	if b.planned {
		s.places.Take(b.offset, size)
	}
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
	return max(bytes, s.places.End())
}

// take makes a block live. Its place in the arena is in use.
func (s *replaying) take(block int, b replayBlock, p *replayPlan) {
	s.live[block] = b
	if !b.planned {
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
	s.places.Free(b.offset)
}

// replan makes a new plan from a run, if one is due.
func (s *replaying) replan(number int, kind string, r *replayed) error {
	plan, blocks := r.plan, r.blocks
	switch {
	case plan == nil:
	case !r.deviates:
		plan.deviating = 0
		plan.used = number
		return nil
	default:
		plan.deviating++
		plan.used = number
		if s.Patience == 0 || plan.deviating < s.Patience {
			return nil
		}
		if s.Merge {
			blocks = replay.Merge(plan.Blocks, blocks, r.found, nil)
		}
	}
	p := Problem{Alignment: s.alignment}
	for i, b := range blocks {
		if b.Stays && !s.Outputs {
			b.Size = 0 // it takes no place
		}
		p.Buffers = append(p.Buffers, Buffer{Size: b.Size, First: i, Last: b.Last})
	}
	found, err := Solve(s.ctx, p, Options{Effort: EffortFast})
	if err != nil {
		return err
	}
	for i := range blocks {
		blocks[i].Offset = found.Offsets[i]
	}
	s.plans[kind] = &replayPlan{Plan: replay.NewPlan(blocks), arena: found.Arena, used: number}
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
