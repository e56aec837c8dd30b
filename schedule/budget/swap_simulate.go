package budget

import (
	"cmp"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

// swap swaps a buffer out after one access and in again before the next.
type swap struct {
	buffer   int32
	from, to int32 // the steps of the two accesses; the buffer is absent between them
	size     int64
	time     int64 // nanoseconds of one transfer
}

// lineSwapper finds sets of swaps for one line and simulates the step with them; nodes run
// in the order of the line, each once.
//
// The link has two directions, and each carries one transfer at a time:
//
//   - Swaps out run in the order of from. Each begins when its access and the swap out
//     before it have ended. Its bytes are free when it ends.
//   - Swaps in run in the order of to. Each begins as late as it can without delaying
//     anything: such that, if no step waited, it would end when its access or the next
//     swap in begins. It begins later if there is no room yet. There is room if every
//     step up to its access stays within the limit, with the swaps out that have not
//     ended.
//   - A step waits until its inputs are back, and for room: until enough swaps out have
//     ended.
type lineSwapper struct {
	*line
	problem *schedule.Problem
	link    int64   // bytes per second
	load    []int64 // step -> bytes, without swaps
	across  []int64 // step -> bytes that are live across the gap before it, without swaps
	begin   []int64 // step -> nanoseconds at which it begins if none waits; the last: the end
	peak    int64
	at      int32 // the first step of the peak
	choices []candidateSwap
}

// transfers is the result of a simulation.
type transfers struct {
	end     int64   // nanoseconds at which the last step ends
	away    []int32 // swap -> the last step that begins before its bytes are free
	returns []int32 // swap -> the step during which, or just before which, the swap in begins
}

// duration returns the nanoseconds of a transfer. It is capped, so that the sum over all
// buffers fits into an int64.
func (h *lineSwapper) duration(size int64) int64 {
	longest := float64(int64(1<<60) / int64(len(h.size)+1))
	return int64(math.Ceil(min(float64(size)/float64(h.link)*1e9, longest)))
}

// absent returns the loads of the steps and of the gaps before them, and the peak, if each
// swapped buffer is absent from right after its first access to its second.
func (h *lineSwapper) absent(set []swap) (load, across []int64, peak int64) {
	load, across = make([]int64, len(h.load)), make([]int64, len(h.across))
	for _, x := range set { // as differences, since swaps are long and overlap
		load[x.from+1] -= x.size
		load[x.to] += x.size
		across[x.from+1] -= x.size
		across[x.to+1] += x.size
	}
	var atStep, inGap int64 // sums of the differences
	for i, bytes := range h.load {
		atStep += load[i]
		load[i] = bytes + atStep
		peak = max(peak, load[i])
	}
	for i, bytes := range h.across {
		inGap += across[i]
		across[i] = bytes + inGap
	}
	return load, across, peak
}

// simulate runs the step with a set of swaps. ok is false if the load exceeds the limit
// even while all swapped buffers are absent. O(steps + the steps that the swaps span x
// the swaps out that run at once).
func (h *lineSwapper) simulate(w *work, set []swap, limit int64) (t transfers, ok bool) {
	w.count(len(h.order))
	load, across, peak := h.absent(set)
	if peak > limit {
		return t, false
	}
	t.away, t.returns = make([]int32, len(set)), make([]int32, len(set))
	r := simulation{lineSwapper: h, set: set, limit: limit, load: load, across: across, transfers: &t, outEnd: make([]int64, len(set))}
	outs, ins := queues(set)
	due := h.due(set, ins)
	for i := range int32(len(h.order)) {
		begin := t.end
		for ; len(ins) > 0 && set[ins[0]].to == i; ins = ins[1:] { // step i reads it
			x := ins[0]
			at := r.waitForRoom(max(t.end, r.linkIn, r.outEnd[x]), across[i]+set[x].size)
			r.swapIn(x, i, at)
			across[i] += set[x].size
		}
		if r.read == i {
			begin = max(begin, r.ready)
		}
		begin = r.waitForRoom(begin, load[i])
		r.late += begin - t.end
		t.end = begin + h.cost[i]
		r.settle(i, begin)
		for ; len(ins) > 0; ins = ins[1:] {
			x := ins[0]
			at := max(due[x]+r.late, r.linkIn, begin)
			if set[x].from >= i || r.outEnd[x] > begin || at >= t.end || !r.room(x, i) {
				break
			}
			r.swapIn(x, i, at)
			for k := i; k < set[x].to; k++ {
				load[k] += set[x].size
				across[k+1] += set[x].size
			}
		}
		for ; len(outs) > 0 && set[outs[0]].from == i; outs = outs[1:] {
			x := outs[0]
			r.linkOut = max(r.linkOut, t.end) + set[x].time
			r.outEnd[x] = r.linkOut
			r.leaving = append(r.leaving, x)
			r.leavingBytes += set[x].size
		}
	}
	r.settle(int32(len(h.order)), math.MaxInt64)
	return t, true
}

// queues returns the swaps of a set in the order in which they go out and in which they
// come in.
func queues(set []swap) (outs, ins []int32) {
	for x := range set {
		outs = append(outs, int32(x))
	}
	ins = slices.Clone(outs)
	slices.SortFunc(outs, func(x, y int32) int {
		return cmp.Or(cmp.Compare(set[x].from, set[y].from), cmp.Compare(set[x].buffer, set[y].buffer))
	})
	slices.SortFunc(ins, func(x, y int32) int {
		return cmp.Or(cmp.Compare(set[x].to, set[y].to), cmp.Compare(set[x].buffer, set[y].buffer))
	})
	return outs, ins
}

// due returns for each swap the latest time at which its transfer in can begin without
// delaying a step or another transfer, if no step waits.
func (h *lineSwapper) due(set []swap, ins []int32) []int64 {
	due := make([]int64, len(set))
	next := int64(math.MaxInt64)
	for k := len(ins) - 1; k >= 0; k-- {
		x := set[ins[k]]
		next = min(next, h.begin[x.to]) - x.time
		due[ins[k]] = next
	}
	return due
}

// simulation is the state of lineSwapper.simulate.
type simulation struct {
	*lineSwapper
	*transfers
	set    []swap
	limit  int64
	load   []int64 // step -> bytes, including the swaps in that have begun
	across []int64 // the same for the gap before it

	outEnd          []int64 // swap -> when its transfer out ends
	linkOut, linkIn int64   // when each direction of the link is free
	late            int64   // how long steps have waited so far
	leaving         []int32 // the swaps out that have not ended, in the order in which they end
	leavingBytes    int64
	read            int32 // the step that reads the last buffer that was swapped in ...
	ready           int64 // ... and when the transfer of that buffer ends
}

// swapIn begins the transfer in of swap x at a time that falls into a step.
func (r *simulation) swapIn(x, step int32, at int64) {
	r.returns[x] = step
	r.linkIn = at + r.set[x].time
	r.read, r.ready = r.set[x].to, r.linkIn
}

// held returns the bytes of the swaps out that end after a time.
func (r *simulation) held(at int64) (bytes int64) {
	for _, x := range r.leaving {
		if r.outEnd[x] > at {
			bytes += r.set[x].size
		}
	}
	return bytes
}

// waitForRoom returns the earliest time, at or later, when the given bytes fit below the
// limit together with the swaps out that have not ended.
func (r *simulation) waitForRoom(at, bytes int64) int64 {
	for bytes+r.leavingBytes > r.limit && bytes+r.held(at) > r.limit {
		next := int64(math.MaxInt64)
		for _, x := range r.leaving {
			if r.outEnd[x] > at {
				next = min(next, r.outEnd[x])
			}
		}
		if next == math.MaxInt64 {
			panic("budget: a step exceeds the limit with all swaps out ended")
		}
		at = next
	}
	return at
}

// room reports whether swap x may begin to come in during a step: it fits into every step
// up to its access, as far as is known then.
func (r *simulation) room(x, step int32) bool {
	if r.limit == math.MaxInt64 {
		return true
	}
	size := r.set[x].size
	for k := step; k < r.set[x].to; k++ {
		if r.load[k]+size+r.leavingBytes > r.limit && r.load[k]+size+r.held(r.begin[k]+r.late) > r.limit {
			return false
		}
	}
	return true
}

// settle removes from leaving the swaps out that end before a step begins.
func (r *simulation) settle(step int32, begin int64) {
	for ; len(r.leaving) > 0 && r.outEnd[r.leaving[0]] <= begin; r.leaving = r.leaving[1:] {
		x := r.leaving[0]
		r.away[x] = step - 1
		r.leavingBytes -= r.set[x].size
	}
}
