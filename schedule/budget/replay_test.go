package budget

import (
	"fmt"

	"github.com/onnxmem/onnxmem/schedule"
)

// instance is the storage of a tensor that one run of its maker made.
type instance struct {
	tensor     int32
	version    int // how often it has been overwritten
	born, last int // positions; -1: there from the start
}

// replay runs a plan's steps on the problem itself, with the version of each storage. It
// returns the peak and the time of the repeated runs. Every reader must find the version
// of each input that it reads in the given order. replay shares no code with the search,
// nor its notions of slots and units.
func replay(p *schedule.Problem, order []int32, steps []int) (peak, extra int64, err error) {
	overwrites := func(v int32, t int32) bool {
		if p.Tensors[t].Producer == v {
			return false
		}
		for _, x := range p.Nodes[v].Writes {
			if x == t {
				return true
			}
		}
		return false
	}
	reads := make([][]int32, len(p.Nodes))
	makes := make([][]int32, len(p.Nodes))
	for i := range p.Tensors {
		t := int32(i)
		x := &p.Tensors[t]
		if x.Producer >= 0 {
			makes[x.Producer] = append(makes[x.Producer], t)
		}
		seen := map[int32]bool{x.Producer: true}
		for _, v := range x.Consumers {
			if !seen[v] {
				seen[v] = true
				reads[v] = append(reads[v], t)
			}
		}
	}
	// The versions that each node reads when every node runs once.
	found := make([]map[int32]int, len(p.Nodes))
	version := make([]int, len(p.Tensors))
	for _, v := range order {
		found[v] = map[int32]int{}
		for _, t := range reads[v] {
			found[v][t] = version[t]
		}
		for _, t := range reads[v] {
			if overwrites(v, t) {
				version[t]++
			}
		}
	}
	final := version

	all := make([][]*instance, len(p.Tensors))
	for i := range p.Tensors {
		if p.Tensors[i].Producer < 0 {
			all[i] = []*instance{{tensor: int32(i), born: -1}}
		}
	}
	newest := func(t int32, version int) *instance {
		for i := len(all[t]) - 1; i >= 0; i-- {
			if all[t][i].version == version {
				return all[t][i]
			}
		}
		return nil
	}
	ran := make([]bool, len(p.Nodes))
	for k, s := range steps {
		v := int32(s)
		if ran[v] {
			extra += p.Nodes[v].Cost
			if p.Nodes[v].Once {
				return 0, 0, fmt.Errorf("position %d: node %d runs again", k, v)
			}
		}
		for _, t := range reads[v] {
			x := newest(t, found[v][t])
			if x == nil {
				return 0, 0, fmt.Errorf("position %d: node %d (again: %v) does not find version %d of tensor %d", k, v, ran[v], found[v][t], t)
			}
			x.last = k
			if overwrites(v, t) {
				if ran[v] && p.Tensors[t].Resident {
					return 0, 0, fmt.Errorf("position %d: node %d overwrites resident tensor %d again", k, v, t)
				}
				x.version++
			}
		}
		for _, t := range makes[v] {
			all[t] = append(all[t], &instance{tensor: t, born: k, last: k})
		}
		ran[v] = true
	}
	for v := range ran {
		if !ran[v] {
			return 0, 0, fmt.Errorf("node %d never runs", v)
		}
	}
	load := make([]int64, len(steps))
	for k, v := range steps {
		load[k] = p.Nodes[v].Workspace
	}
	for i, list := range all {
		t := &p.Tensors[i]
		if t.Resident {
			continue
		}
		if t.Output {
			x := newest(int32(i), final[i])
			if x == nil {
				return 0, 0, fmt.Errorf("output %d is not held at the end", i)
			}
			x.last = len(steps) - 1
		}
		for _, x := range list {
			for k := max(x.born, 0); k <= x.last; k++ {
				load[k] += t.Bytes
			}
		}
	}
	// At each position, try all choices of in-place pairs.
	for k, s := range steps {
		v := int32(s)
		type pair struct{ o, t int32 }
		var pairs []pair
		for _, o := range makes[v] {
			for _, t := range p.Tensors[o].Reuses {
				x := &p.Tensors[t]
				if x.Resident || x.Output || p.Tensors[o].Resident || x.Bytes != p.Tensors[o].Bytes {
					continue
				}
				for _, y := range all[t] {
					if y.last == k && y.born < k {
						pairs = append(pairs, pair{o, t})
					}
				}
			}
		}
		var best func(i int, used map[int32]bool) int64
		best = func(i int, used map[int32]bool) int64 {
			if i == len(pairs) {
				return 0
			}
			most := best(i+1, used)
			if x := pairs[i]; !used[x.t] && !used[-1-x.o] {
				used[x.t], used[-1-x.o] = true, true
				most = max(most, p.Tensors[x.t].Bytes+best(i+1, used))
				delete(used, x.t)
				delete(used, -1-x.o)
			}
			return most
		}
		load[k] -= best(0, map[int32]bool{})
	}
	for _, x := range load {
		peak = max(peak, x)
	}
	return peak, extra, nil
}
