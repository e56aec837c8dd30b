package budget

import (
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

// rules say which nodes may run again, as far as that does not depend on the order.
type rules struct {
	writers [][]int32 // tensor -> the nodes that overwrite it, by index
	once    []bool    // node -> it must not run again
	fixed   []bool    // tensor -> it must not be recomputed: its producer overwrites another tensor
	final   []bool    // node -> see Options.Final; it may be shorter
	known   bool      // whether the problem says which tensors its nodes overwrite
}

// isFinal reports whether a node is marked by Options.Final.
func (r *rules) isFinal(v int32) bool { return int(v) < len(r.final) && r.final[v] }

// rulesOf determines which nodes may run again and which tensors can be recomputed:
//
//   - A node must run only once if it is marked Once, if it overwrites a resident
//     tensor (a parameter or a counter, which a second run would update twice), or if
//     it overwrites several tensors (a second run would spoil all but one).
//   - A tensor is fixed if its producer overwrites another tensor: a second run would
//     find its input already overwritten.
//
// If no node says which tensors it writes, the writers are derived from control
// tensors. If a control tensor makes u run before v and both read or make a tensor t,
// one of the two overwrites t. It is the one without outputs, such as an update or an
// in-place Relu; if that does not decide, both count as writers. Derived writers
// never run again.
//
// line.limitUnits treats the readers of tensors that are overwritten later.
func rulesOf(p *schedule.Problem) (*rules, error) {
	r := &rules{
		writers: make([][]int32, len(p.Tensors)),
		once:    make([]bool, len(p.Nodes)),
		fixed:   make([]bool, len(p.Tensors)),
	}
	for v := range p.Nodes {
		r.known = r.known || p.Nodes[v].Writes != nil
		r.once[v] = p.Nodes[v].Once
	}
	if !r.known {
		r.derive(p)
		return r, nil
	}
	others := make([]int, len(p.Nodes)) // node -> the number of tensors that it overwrites
	kept := make([]int, len(p.Nodes))   // the same, without resident tensors
	for i := range p.Nodes {
		v := int32(i)
		writes := slices.Clone(p.Nodes[v].Writes)
		slices.Sort(writes)
		for _, t := range slices.Compact(writes) {
			x := &p.Tensors[t]
			if x.Producer == v {
				continue
			}
			if !slices.Contains(x.Consumers, v) {
				return nil, fmt.Errorf("node %d %.64q: writes tensor %d %.64q: expected it among those that it reads", v, p.Nodes[v].Name, t, x.Name)
			}
			r.writers[t] = append(r.writers[t], v)
			others[v]++
			if !x.Resident {
				kept[v]++
			}
		}
	}
	for v := range p.Nodes {
		r.once[v] = r.once[v] || others[v] > 1 || others[v] > kept[v]
	}
	for t := range p.Tensors {
		v := p.Tensors[t].Producer
		r.fixed[t] = v >= 0 && kept[v] > 0
	}
	return r, nil
}

// derive derives the writers of tensors from control tensors; see rulesOf.
func (r *rules) derive(p *schedule.Problem) {
	touched := make([][]int32, len(p.Nodes)) // node -> the tensors with bytes that it reads or makes
	makes := make([]bool, len(p.Nodes))      // node -> whether it makes a tensor with bytes
	for t := range p.Tensors {
		x := &p.Tensors[t]
		if x.Bytes == 0 {
			continue
		}
		if x.Producer >= 0 {
			makes[x.Producer] = true
			touched[x.Producer] = append(touched[x.Producer], int32(t))
		}
		for _, v := range x.Consumers {
			if v != x.Producer {
				touched[v] = append(touched[v], int32(t))
			}
		}
	}
	suspect := func(w, t int32) {
		if p.Tensors[t].Producer != w && !slices.Contains(r.writers[t], w) {
			r.writers[t] = append(r.writers[t], w)
			r.once[w] = true
		}
	}
	at := make([]int32, len(p.Tensors)) // tensor -> 1 + the last node that touched it
	for c := range p.Tensors {
		x := &p.Tensors[c]
		if x.Bytes > 0 || x.Producer < 0 {
			continue
		}
		u := x.Producer
		for _, t := range touched[u] {
			at[t] = u + 1
		}
		for _, v := range x.Consumers {
			for _, t := range touched[v] {
				if v == u || at[t] != u+1 {
					continue
				}
				if !makes[u] || makes[v] {
					suspect(u, t)
				}
				if !makes[v] || makes[u] {
					suspect(v, t)
				}
			}
		}
	}
}

// If no node of a problem has a cost, a node's cost is estimated as the time to move
// its inputs and outputs once at 700 GB/s, but at least a microsecond.
const (
	bytesPerNanosecond = 700
	leastCost          = 1000
)

// Costs returns the cost of each node in nanoseconds.
func Costs(p *schedule.Problem) ([]int64, error) {
	costs := make([]int64, len(p.Nodes))
	var sum int64
	for v := range costs {
		costs[v] = p.Nodes[v].Cost
		if costs[v] > math.MaxInt64/4-sum {
			return nil, fmt.Errorf("node %d %.64q: cost of %d nanoseconds: all costs together pass %d", v, p.Nodes[v].Name, costs[v], math.MaxInt64/4)
		}
		sum += costs[v]
	}
	if sum > 0 {
		return costs, nil
	}
	for t := range p.Tensors {
		x := &p.Tensors[t]
		if x.Producer >= 0 {
			costs[x.Producer] += x.Bytes / bytesPerNanosecond
		}
		for i, v := range x.Consumers {
			if v != x.Producer && (i == 0 || v != x.Consumers[i-1]) {
				costs[v] += x.Bytes / bytesPerNanosecond
			}
		}
	}
	for v := range costs {
		costs[v] = max(costs[v], leastCost)
	}
	return costs, nil
}
