package budget

import (
	"cmp"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

// swap is a buffer that leaves after an access and is back before the next one.
type swap struct {
	buffer   int32
	from, to int32 // the accesses' steps; it is absent between them
	size     int64
	time     int64 // nanoseconds of one transfer
}

// lineSwapper swaps tensors out and in along the plain step of one line.
//
// There is one link each way. Out-transfers run one after another in the order
// of from, each once its access and the transfer before have ended; the bytes
// are free when it ends. In-transfers run one after another in the order of to,
// as late as delays nothing: each would end when its access, or the next
// transfer, begins, in a step that waits for nothing. Where there is no room for
// one (the load of every step up to its access, with what is on its way, within
// the limit) it begins later. A step waits for what it reads, and for room:
// until enough out-transfers have ended.
type lineSwapper struct {
	*line
	problem *schedule.Problem
	link    int64   // bytes a second
	load    []int64 // of each step
	across  []int64 // across the gap before each step, without what the step makes
	begin   []int64 // nanoseconds at which each step begins if nothing waits; the last: the end
	peak    int64
	at      int32 // the first step of the peak
	choices []candidateSwap
}

// transfers say when the swaps of a set run, in a step under a limit.
type transfers struct {
	end     int64   // nanoseconds until the last step has ended
	away    []int32 // for each swap, the last step at whose begin its bytes are not free yet
	returns []int32 // the step during which, or just before which, the transfer back begins
}

// duration returns the nanoseconds of a transfer, at most a share of what an
// int64 holds for all.
func (h *lineSwapper) duration(size int64) int64 {
	longest := float64(int64(1<<60) / int64(len(h.size)+1))
	return int64(math.Ceil(min(float64(size)/float64(h.link)*1e9, longest)))
}

// absent returns the loads of the steps and of the gaps before them, each swap
// out of the device between its accesses, and the peak.
func (h *lineSwapper) absent(set []swap) (load, across []int64, peak int64) {
	load, across = make([]int64, len(h.load)), make([]int64, len(h.across))
	for _, x := range set { // differences: gaps are long and lie over each other
		load[x.from+1] -= x.size
		load[x.to] += x.size
		across[x.from+1] -= x.size
		across[x.to+1] += x.size
	}
	var away, between int64
	for i, bytes := range h.load {
		away += load[i]
		load[i] = bytes + away
		peak = max(peak, load[i])
	}
	for i, bytes := range h.across {
		between += across[i]
		across[i] = bytes + between
	}
	return load, across, peak
}

// simulate runs one step with a set of swaps. ok is false if the load passes the
// limit even with every swap out of the way. O(steps + the swaps' gaps x the
// out-transfers on their way).
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
		for ; len(ins) > 0 && set[ins[0]].to == i; ins = ins[1:] { // needed now
			x := ins[0]
			at := r.waitForRoom(max(t.end, r.linkIn, r.outEnd[x]), across[i]+set[x].size)
			r.bring(x, i, at)
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
			r.bring(x, i, at)
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

// queues returns a set in the order of the out-transfers and of the in-transfers.
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

// due returns when each in-transfer begins at the latest if it delays nothing, in
// a step that waits for nothing.
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
	load   []int64 // of each step, with what has begun to return
	across []int64

	outEnd          []int64
	linkOut, linkIn int64   // when each direction is free
	late            int64   // how long steps have waited so far
	leaving         []int32 // in the order in which they end
	leavingBytes    int64
	read            int32 // the last step for which something was brought, and when it is all there
	ready           int64
}

// bring begins a transfer back.
func (r *simulation) bring(x, step int32, at int64) {
	r.returns[x] = step
	r.linkIn = at + r.set[x].time
	r.read, r.ready = r.set[x].to, r.linkIn
}

// held returns the bytes on their way out at a time.
func (r *simulation) held(at int64) (bytes int64) {
	for _, x := range r.leaving {
		if r.outEnd[x] > at {
			bytes += r.set[x].size
		}
	}
	return bytes
}

// waitForRoom returns the first time from at on when there is room for so many
// bytes beside what is on its way out.
func (r *simulation) waitForRoom(at, bytes int64) int64 {
	for bytes+r.leavingBytes > r.limit && bytes+r.held(at) > r.limit {
		next := int64(math.MaxInt64)
		for _, x := range r.leaving {
			if r.outEnd[x] > at {
				next = min(next, r.outEnd[x])
			}
		}
		if next == math.MaxInt64 {
			panic("budget: no room without a transfer on its way")
		}
		at = next
	}
	return at
}

// room reports whether a swap may begin to return during a step: there is room
// for it up to its access, as far as that can be told.
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

// settle drops what has left by the begin of a step.
func (r *simulation) settle(step int32, begin int64) {
	for ; len(r.leaving) > 0 && r.outEnd[r.leaving[0]] <= begin; r.leaving = r.leaving[1:] {
		x := r.leaving[0]
		r.away[x] = step - 1
		r.leavingBytes -= r.set[x].size
	}
}
