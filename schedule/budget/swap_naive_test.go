package budget

import "math"

// ticks simulates a set of swaps under a limit nanosecond by nanosecond. It follows the
// definition, without queues or running sums, and checks simulate. It returns the end of
// the step, or math.MaxInt64 if nothing can proceed, and the largest number of bytes that
// are held at any time.
func ticks(h *lineSwapper, set []swap, limit int64) (end, most int64) {
	const never = math.MaxInt64
	n := len(h.order)
	began, ended := make([]int64, n), make([]int64, n) // steps
	outEnd, inBegin, inEnd := make([]int64, len(set)), make([]int64, len(set)), make([]int64, len(set))
	inStep := make([]int, len(set))
	for i := range n {
		began[i], ended[i] = never, never
	}
	for x := range set {
		outEnd[x], inBegin[x], inEnd[x], inStep[x] = never, never, never, -1
	}
	before := func(a, b int32, x, y int) bool { return a < b || a == b && set[x].buffer < set[y].buffer }
	next := 0 // the step that runs next
	running := -1
	late := int64(0)
	for now := int64(0); now < 1_000_000; now++ {
		for again := true; again; {
			again = false
			if running >= 0 && began[running]+h.cost[running] == now {
				ended[running] = now
				// Transfers out that may begin now get their end at once, since no other
				// transfer can use the link before them.
				for {
					pick := -1
					for x := range set {
						if set[x].from == int32(running) && outEnd[x] == never && (pick < 0 || set[x].buffer < set[pick].buffer) {
							pick = x
						}
					}
					if pick < 0 {
						break
					}
					free := now
					for y := range set {
						if outEnd[y] != never {
							free = max(free, outEnd[y])
						}
					}
					outEnd[pick] = free + set[pick].time
				}
				running = -1
				if next == n {
					return now, most
				}
				again = true
			}
			// held returns the bytes that have not left at a time.
			held := func(at int64) (sum int64) {
				for x := range set {
					if outEnd[x] != never && outEnd[x] > at {
						sum += set[x].size
					}
				}
				return sum
			}
			there := func(x int, step int32, gap bool) bool { // with its bytes at a step, or in the gap before it
				if step <= set[x].from || step > set[x].to || !gap && step == set[x].to {
					return true
				}
				return inStep[x] >= 0 && (int32(inStep[x]) <= step && !gap || int32(inStep[x]) < step || int32(inStep[x]) == step && step == set[x].to)
			}
			load := func(step int32, gap bool) int64 {
				sum := h.load[step]
				if gap {
					sum = h.across[step]
				}
				for x := range set {
					if !there(x, step, gap) {
						sum -= set[x].size
					}
				}
				return sum
			}
			first := func() int { // the next transfer back
				pick := -1
				for x := range set {
					if inBegin[x] == never && (pick < 0 || before(set[x].to, set[pick].to, x, pick)) {
						pick = x
					}
				}
				return pick
			}
			linkFree := func() int64 {
				free := int64(0)
				for x := range set {
					if inBegin[x] != never {
						free = max(free, inEnd[x])
					}
				}
				return free
			}
			if running < 0 && next < n {
				// A transfer in that the next step needs.
				if x := first(); x >= 0 && set[x].to == int32(next) {
					if outEnd[x] <= now && linkFree() <= now && load(int32(next), true)+set[x].size+held(now) <= limit {
						inBegin[x], inEnd[x], inStep[x] = now, now+set[x].time, next
						again = true
					}
					continue
				}
				ready := load(int32(next), false)+held(now) <= limit
				for x := range set {
					ready = ready && (set[x].to != int32(next) || inEnd[x] <= now)
				}
				if !ready {
					continue
				}
				began[next] = now
				late = now - h.begin[next]
				running = next
				next++
				again = true
				// Transfers in that may begin during the step.
				for {
					x := first()
					if x < 0 || outEnd[x] > now {
						break
					}
					latest := int64(never) // walk the queue from its end down to x
					for done := map[int]bool{}; !done[x]; {
						last := -1
						for y := range set {
							if !done[y] && (last < 0 || before(set[last].to, set[y].to, last, y)) {
								last = y
							}
						}
						latest = min(latest, h.begin[set[last].to]) - set[last].time
						done[last] = true
					}
					at := max(latest+late, linkFree(), now)
					fits := at < now+h.cost[running]
					for k := running; fits && k < int(set[x].to); k++ {
						at := h.begin[k] + late
						fits = load(int32(k), false)+set[x].size+held(at) <= limit
					}
					if !fits {
						break
					}
					inBegin[x], inEnd[x], inStep[x] = at, at+set[x].time, running
				}
			}
		}
		// The bytes that are held after everything that happens at this time.
		sum := int64(0)
		switch {
		case running >= 0:
			sum = h.load[running]
		case next < n:
			sum = h.across[next]
		}
		at := running
		if running < 0 {
			at = next
		}
		for x := range set {
			gone := int32(at) > set[x].from && int32(at) < set[x].to || running < 0 && int32(at) == set[x].to
			switch {
			case !gone:
			case outEnd[x] > now, inBegin[x] <= now:
			default:
				sum -= set[x].size
			}
		}
		most = max(most, sum)
	}
	return never, most
}
