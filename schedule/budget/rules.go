package budget

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

// rules say what may run again, as far as they do not depend on the order.
type rules struct {
	writers [][]int32 // tensor -> the nodes that overwrite it, by index
	once    []bool    // node -> never again
	fixed   []bool    // tensor -> never made anew by itself: its maker overwrites another
	known   bool      // whether the problem says what its nodes overwrite
}

// rulesOf reads off a problem which nodes and tensors can be made again:
//
//   - A node is once that says so, that overwrites something resident (a
//     parameter, a counter: a repetition would count twice), or that overwrites
//     several tensors, of which a repetition would spoil all but one.
//   - A tensor is fixed whose maker overwrites another: it would find its input
//     overwritten by itself.
//
// Where no node says what it writes, control tensors tell: if u runs before v by
// one, and both read or make a tensor, one of them overwrites it: the one that
// makes nothing itself, as an update or a Relu in place; where that does not
// tell, both are taken for writers. They never run again.
//
// What reads a tensor that is overwritten later is in line.limitUnits.
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
	others := make([]int, len(p.Nodes)) // node -> how many tensors it overwrites
	kept := make([]int, len(p.Nodes))   // the same, not counting resident ones
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

// derive takes control tensors for what they come from.
func (r *rules) derive(p *schedule.Problem) {
	touched := make([][]int32, len(p.Nodes)) // node -> tensors with bytes that it reads or makes
	makes := make([]bool, len(p.Nodes))      // node -> whether it makes one
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
	at := make([]int32, len(p.Tensors)) // 1 + the node that last touched it
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
