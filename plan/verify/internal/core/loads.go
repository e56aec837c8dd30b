package core

// Loads returns the load at each step: the sum of the live buffers that are neither resident
// nor on the host.
func (p *Problem) Loads(buffers []Buffer) []int64 {
	steps := len(p.Nodes)
	change := make([]int64, steps+1)
	if p.Naive(buffers); p.Sums.Overflow || steps == 0 {
		return make([]int64, steps)
	}
	for k := range buffers {
		if b := &buffers[k]; b.Known && !b.Resident && !b.Host {
			change[b.First] += b.Bytes
			change[b.Last+1] -= b.Bytes
		}
	}
	loads := make([]int64, steps)
	live := int64(0)
	for i := range loads {
		live += change[i]
		loads[i] = live
	}
	return loads
}

// Naive is the sum of the buffers that are neither resident nor on the host.
func (p *Problem) Naive(buffers []Buffer) int64 {
	sum := int64(0)
	for k := range buffers {
		if b := &buffers[k]; b.Known && !b.Resident && !b.Host {
			sum = p.Sums.Add(sum, b.Bytes)
		}
	}
	return sum
}

// Simulate runs the nodes in an order, with a largest matching of in-place pairs
// at each step, and returns the loads and their peak. Without nodes the peak is
// the bytes of the inputs.
func (p *Problem) Simulate(order []int32) (loads []int64, peak int64) {
	pos := make([]int, len(order))
	for i, n := range order {
		pos[n] = i
	}
	change := make([]int64, len(order)+1)
	last := make([]int, len(p.Storages))
	total := int64(0)
	for i := range p.Storages {
		if !p.Counts(int32(i)) {
			continue
		}
		bytes := p.Storages[i].Bytes
		if total = p.Sums.Add(total, bytes); p.Sums.Overflow {
			return make([]int64, len(order)), 0
		}
		if len(order) == 0 {
			continue
		}
		var first int
		first, last[i] = p.Lifetime(int32(i), pos)
		change[first] += bytes
		change[last[i]+1] -= bytes
	}
	if len(order) == 0 {
		return []int64{}, total
	}
	loads = make([]int64, len(order))
	live := int64(0)
	for step, n := range order {
		live += change[step]
		var free []Pair
		for _, x := range p.Pairs(n) {
			if last[x.Over] == step {
				free = append(free, x)
			}
		}
		load := live
		if len(free) > 0 {
			load -= p.Saved(free)
		}
		loads[step] = p.Sums.Add(load, p.Work[n])
		peak = max(peak, loads[step])
	}
	return loads, peak
}
