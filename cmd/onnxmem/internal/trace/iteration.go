package trace

import (
	"slices"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/internal/units"
)

// How an iteration was found.
const (
	ByMarks  = "marks"  // the recording says where runs begin
	ByPeriod = "period" // the stream repeats
	ByWhole  = "whole"  // it does not: the whole recording is taken as one iteration
)

// Iteration is the part of a recording that repeats, with the lifetimes in it. Steps
// are its events, counted from 0: a block is live from the event that allocates it to
// the one before its free.
type Iteration struct {
	Found   string // ByMarks, ByPeriod or ByWhole
	Begin   int    // its first event in the recording
	Length  int    // its events
	Repeats int    // how often it stands in the recording, one after another
	Covered int    // events of the recording that are part of these repetitions

	// Unrolled is the number of iterations after which places repeat: more than 1 if a
	// block lives so long that the next iteration allocates another one in the
	// meantime.
	Unrolled int
	Buffers  []Buffer // of all unrolled iterations, in the order of their allocation

	Carried  Count // blocks that are allocated in one iteration and freed in a later one
	Resident Count // blocks that are allocated before and not freed in the repetitions
	Kept     Count // blocks of one iteration that are not freed in the repetitions

	trace      *Trace
	first, end int // the repetitions
	kept       []bool
	quiet      int // the step before which the fewest bytes are live
}

// Steps is the number of events after which places repeat.
func (it *Iteration) Steps() int { return it.Length * it.Unrolled }

// Buffer is a block that gets a place.
type Buffer struct {
	Size, Stream int64
	Alloc        int // the step of its allocation
	Free         int // the step of its free, at most Alloc if that is in the next round; Steps: not freed
}

// Count is a number of blocks and the sum of their sizes.
type Count struct {
	Blocks int
	Bytes  int64
}

func (c *Count) add(size int64) {
	c.Blocks++
	c.Bytes += size
}

// mostUnrolled is the largest number of iterations that a block may live through.
const mostUnrolled = 8

// Iteration finds the iteration. If the recording has marks, it is the run, from mark
// to mark, that is repeated most often without another in between; the last of equal
// ones. Else it is the period of the longest repetition (longestRepetition), if that
// covers half of the recording, and begins where the fewest bytes are carried over.
// Else it is the whole recording.
func (t *Trace) Iteration() *Iteration {
	symbols := t.symbols()
	it := &Iteration{Found: ByWhole, trace: t, Length: len(t.Events), end: len(t.Events)}
	if len(t.Marks) > 0 {
		it.Found = ByMarks
		it.first, it.end, it.Length = t.markedRun(symbols)
	} else if r := longestRepetition(symbols); 2*r.length() >= len(t.Events) {
		it.Found = ByPeriod
		it.first, it.end, it.Length = r.begin, r.end, r.period
	}
	it.Begin = it.first
	it.Covered = it.end - it.first
	it.Repeats = it.Covered / max(1, it.Length)
	it.Unrolled = 1
	if it.Repeats == 1 {
		it.once()
		return it
	}
	it.findKept()
	if it.quiet = it.quietest(); it.Found == ByPeriod {
		it.Begin, it.quiet = it.first+it.quiet, 0
	}
	it.unroll()
	return it
}

// markedRun returns the longest stretch of equal marked runs, the last of equal ones,
// and the length of a run.
func (t *Trace) markedRun(symbols []int32) (first, end, length int) {
	run := func(k int) []int32 {
		if k+1 < len(t.Marks) {
			return symbols[t.Marks[k]:t.Marks[k+1]]
		}
		return symbols[t.Marks[k]:]
	}
	best, stretch := 0, 0
	for k := 0; k < len(t.Marks); {
		last := k + 1
		for last < len(t.Marks) && slices.Equal(run(k), run(last)) {
			last++
		}
		if last-k >= best && len(run(k)) > 0 {
			best, stretch = last-k, k
		}
		k = last
	}
	length = len(run(stretch))
	return t.Marks[stretch], t.Marks[stretch] + best*length, length
}

// once makes the buffers of an iteration that stands only once in the recording. A
// block that it does not free is live to its end.
func (it *Iteration) once() {
	t := it.trace
	for i := it.first; i < it.end; i++ {
		if e := t.Events[i]; !e.Free {
			b := &t.Blocks[e.Block]
			free := it.Length
			if b.Free >= 0 && b.Free < it.end {
				free = b.Free - it.first
			}
			it.Buffers = append(it.Buffers, Buffer{b.Size, b.Stream, i - it.first, free})
		}
	}
	it.countResident()
}

// countResident counts the blocks that are live throughout the repetitions.
func (it *Iteration) countResident() {
	for i := range it.trace.Blocks {
		if b := &it.trace.Blocks[i]; b.Alloc < it.first && (b.Free < 0 || b.Free >= it.end) && b.Alloc >= 0 {
			it.Resident.add(b.Size)
		}
	}
}

// findKept finds the allocations of an iteration whose blocks the repetitions do not
// free, or only after too many iterations. The first iteration tells: its blocks have
// the most time.
func (it *Iteration) findKept() {
	it.kept = make([]bool, it.Length)
	for a := range it.Length {
		e := it.trace.Events[it.first+a]
		if e.Free {
			continue
		}
		if b := &it.trace.Blocks[e.Block]; b.Free < 0 || b.Free >= it.end || b.Free-b.Alloc >= mostUnrolled*it.Length {
			it.kept[a] = true
			it.Kept.add(b.Size)
		}
	}
	it.countResident()
}

// slot returns the block whose allocation is event a of the first iteration, and the
// number of events for which it lives; false if the event is a free, or it is kept.
func (it *Iteration) slot(a int) (b *Block, events int, ok bool) {
	e := it.trace.Events[it.first+a]
	if e.Free || it.kept[a] {
		return nil, 0, false
	}
	b = &it.trace.Blocks[e.Block]
	return b, b.Free - b.Alloc, true
}

// quietest returns the event of the first iteration before which the fewest bytes are
// live, the first of equal ones.
func (it *Iteration) quietest() int {
	change := make([]int64, it.Length+1) // of the live bytes, before each event
	for a := range it.Length {
		b, events, ok := it.slot(a)
		if !ok {
			continue
		}
		// Whole iterations add the same to every event.
		from, to := a+1, a+1+events%it.Length
		change[from%it.Length] += b.Size
		change[to%it.Length] -= b.Size
		if to >= it.Length && from < it.Length {
			change[0] += b.Size
		}
	}
	best, at, live := int64(0), 0, int64(0)
	for j := range it.Length {
		live += change[j]
		if j == 0 || live < best {
			best, at = live, j
		}
	}
	return at
}

// unroll makes the buffers of as many iterations as the longest lifetime needs.
func (it *Iteration) unroll() {
	shift := it.Begin - it.first
	for a := range it.Length {
		if _, events, ok := it.slot(a); ok {
			it.Unrolled = max(it.Unrolled, events/it.Length+1)
		}
	}
	steps := it.Steps()
	for round := range it.Unrolled {
		for k := range it.Length {
			b, events, ok := it.slot((k + shift) % it.Length)
			if !ok {
				continue
			}
			start := round*it.Length + k
			if round == 0 && start+events >= it.Length {
				it.Carried.add(b.Size)
			}
			it.Buffers = append(it.Buffers, Buffer{b.Size, b.Stream, start, (start + events) % steps})
		}
	}
}

// Streams lists the streams of the buffers, ascending; 0 if there are no buffers.
func (it *Iteration) Streams() []int64 {
	if len(it.Buffers) == 0 {
		return []int64{0}
	}
	var list []int64
	for i := range it.Buffers {
		if n := len(list); n == 0 || list[n-1] != it.Buffers[i].Stream {
			list = append(list, it.Buffers[i].Stream)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// problem returns the buffers of a stream as a problem of placement, and their indices
// in it.Buffers.
func (it *Iteration) problem(stream, alignment int64) (p alloc.Problem, index []int) {
	p.Alignment = alignment
	for i, b := range it.Buffers {
		if b.Stream == stream {
			p.Buffers = append(p.Buffers, it.buffer(b))
			index = append(index, i)
		}
	}
	return p, index
}

// buffer returns a block as a buffer of a problem of placement, in which step 0 is the
// one before which the fewest bytes are live: there the fewest blocks are cut in two.
// Such a block is a buffer of all steps, with a gap between its free and its
// allocation.
func (it *Iteration) buffer(b Buffer) alloc.Buffer {
	steps := it.Steps()
	if it.Repeats == 1 {
		return alloc.Buffer{Size: b.Size, First: b.Alloc, Last: b.Free - 1}
	}
	from, to := (b.Alloc+steps-it.quiet)%steps, (b.Free+steps-it.quiet)%steps
	switch {
	case to == 0:
		return alloc.Buffer{Size: b.Size, First: from, Last: steps - 1}
	case to < from:
		return alloc.Buffer{Size: b.Size, Last: steps - 1, Gaps: []alloc.Gap{{First: to, Last: from - 1}}}
	}
	return alloc.Buffer{Size: b.Size, First: from, Last: to - 1}
}

// mostSimulated bounds the events that an allocator is simulated for.
const mostSimulated = 1 << 20

// recorded returns the blocks of a stream that events of the recording allocate, but for
// those that the iteration keeps.
func (it *Iteration) recorded(stream int64, first, end int) (p alloc.Problem) {
	t := it.trace
	for i := first; i < end; i++ {
		e := t.Events[i]
		b := &t.Blocks[e.Block]
		if e.Free || b.Stream != stream || it.kept != nil && i >= it.first && i < it.end && it.kept[(i-it.first)%it.Length] {
			continue
		}
		last := end - 1
		if b.Free >= 0 && b.Free < end {
			last = b.Free - 1
		}
		p.Buffers = append(p.Buffers, alloc.Buffer{Size: b.Size, First: i, Last: last})
	}
	return p
}

// Reserved returns what each allocator takes from its device for the repetitions as
// they were recorded, each stream by itself: blocks of one stream are not given to
// another. Of long recordings, it takes the first million events. An allocator that
// reuses nothing is asked for one iteration.
func (it *Iteration) Reserved(simulators []alloc.Simulator) []int64 {
	end := it.end
	if rounds := max(1, mostSimulated/max(1, it.Length)); it.Repeats > rounds {
		end = it.first + rounds*it.Length
	}
	bytes, _ := it.reserved(simulators, it.first, end)
	for i, s := range simulators {
		if s.Naive {
			bytes[i] = it.Naive()
		}
	}
	return bytes
}

// ReservedByAll returns the same for all runs, equal or not, and their largest load.
func (it *Iteration) ReservedByAll(simulators []alloc.Simulator) (bytes []int64, load int64) {
	begins := it.runs()
	end := len(it.trace.Events)
	if len(it.trace.Marks) == 0 {
		end = it.end
	}
	return it.reserved(simulators, begins[0], min(end, begins[0]+mostSimulated))
}

func (it *Iteration) reserved(simulators []alloc.Simulator, first, end int) (bytes []int64, load int64) {
	bytes = make([]int64, len(simulators))
	for _, stream := range it.Streams() {
		p := it.recorded(stream, first, end)
		for i, s := range simulators {
			bytes[i] = units.Add(bytes[i], s.Func(p).Reserved)
		}
		load = units.Add(load, p.MaxLoad())
	}
	return bytes, load
}

// Naive is the sum of the sizes of the blocks of one iteration that get a place.
func (it *Iteration) Naive() (bytes int64) {
	for i := range it.Buffers {
		bytes += it.Buffers[i].Size
	}
	return bytes / int64(it.Unrolled)
}

// Runs returns the requests of a stream by run: from mark to mark, or one repetition
// after another, or all. What stands before the first run is left out, with the frees
// of its blocks.
func (it *Iteration) Runs(stream int64) (runs [][]alloc.Request) {
	t := it.trace
	begins := it.runs()
	for k, begin := range begins {
		end := len(t.Events)
		if k+1 < len(begins) {
			end = begins[k+1]
		} else if len(t.Marks) == 0 {
			end = it.end
		}
		run := []alloc.Request{}
		for _, e := range t.Events[begin:end] {
			if b := &t.Blocks[e.Block]; b.Stream == stream && b.Alloc >= begins[0] {
				run = append(run, alloc.Request{Block: int(e.Block), Size: b.Size, Free: e.Free})
			}
		}
		runs = append(runs, run)
	}
	return runs
}

// runs returns the events at which runs begin.
func (it *Iteration) runs() (begins []int) {
	if len(it.trace.Marks) > 0 {
		return it.trace.Marks
	}
	for k := range it.Repeats {
		begins = append(begins, it.first+k*it.Length)
	}
	return begins
}

// First returns the blocks that the first repetition allocates, in the order of their
// allocation. Steps are counted among its allocations and its frees of these blocks; Free
// is -1 if it does not free a block.
func (it *Iteration) First() (list []Buffer) {
	t := it.trace
	index := map[int32]int{}
	steps := 0
	for _, e := range t.Events[it.first : it.first+it.Length] {
		at, known := index[e.Block]
		switch {
		case e.Free && !known:
			continue
		case e.Free:
			list[at].Free = steps
		default:
			index[e.Block] = len(list)
			b := &t.Blocks[e.Block]
			list = append(list, Buffer{Size: b.Size, Stream: b.Stream, Alloc: steps, Free: -1})
		}
		steps++
	}
	return list
}
