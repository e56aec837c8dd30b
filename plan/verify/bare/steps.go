package bare

import (
	"context"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
)

// Swap is a tensor that leaves for the host at the step of node N+2k, where N is the number
// of nodes and k the place of the swap in its list, and returns at that of node N+2k+1.
type Swap struct{ Tensor int32 }

// Steps checks steps in which nodes may run again and tensors may be swapped, and returns the
// peak, with a bound: what the most demanding node needs in any steps. Each run makes new
// instances of all results of its node. A reader reads the newest instance that has been
// overwritten as often as the one that it read in its first run. The error names the first
// fault, or is the context's.
func (p *Problem) Steps(ctx context.Context, steps []int32, swaps []Swap) (v Verdict, err error) {
	if p, err = p.joined(); err != nil {
		return v, err
	}
	u := unrolling{p: p, swaps: swaps, steps: steps}
	if err := u.versions(); err != nil {
		return v, err
	}
	c, err := u.unroll()
	if err != nil {
		return v, err
	}
	defer ends(&err)
	return measured(ctx, c, len(steps))
}

// instance is the storage that one run made for a tensor.
type instance struct {
	storage int32
	version int // how often it has been overwritten
}

// unrolling is steps on their way to a problem in which every run is a node of its own.
type unrolling struct {
	p     *Problem
	steps []int32
	swaps []Swap

	reads, makes [][]int32       // by node: tensors
	found        []map[int32]int // by node: the version of each tensor that it reads
	final        []int           // by tensor: the version at the end
	all          [][]instance    // by tensor: the newest last
	host         []int           // by swap: the version on the host; -1: it has not left, -2: it is back
	left         []int32         // by swap: the step at which it left
	c            *core.Problem
}

// versions runs each node once, in the order of the first runs, for the versions that it reads.
func (u *unrolling) versions() error {
	p := u.p
	u.reads, u.makes = make([][]int32, len(p.Nodes)), make([][]int32, len(p.Nodes))
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if t.Producer >= 0 {
			u.makes[t.Producer] = append(u.makes[t.Producer], int32(i))
		}
		for _, n := range t.readers() {
			u.reads[n] = append(u.reads[n], int32(i))
		}
	}
	version, ran := make([]int, len(p.Tensors)), make([]bool, len(p.Nodes))
	u.found = make([]map[int32]int, len(p.Nodes))
	count := 0
	for k, n := range u.steps {
		if n < 0 || int(n) >= len(p.Nodes)+2*len(u.swaps) {
			return fmt.Errorf("step %d: node %d: expected one below %d", k, n, len(p.Nodes)+2*len(u.swaps))
		}
		if int(n) >= len(p.Nodes) || ran[n] {
			continue
		}
		ran[n] = true
		count++
		u.found[n] = map[int32]int{}
		for _, t := range u.reads[n] {
			if m := p.Tensors[t].Producer; m >= 0 && !ran[m] {
				return fmt.Errorf("step %d: node %d reads tensor %d: expected node %d, which makes it, before", k, n, t, m)
			}
			u.found[n][t] = version[t]
		}
		for _, t := range u.reads[n] {
			if p.overwrites(n, t) {
				version[t]++
			}
		}
	}
	if count < len(p.Nodes) {
		return fmt.Errorf("node %d does not run", slices.Index(ran, false))
	}
	u.final = version
	return nil
}

func (p *Problem) overwrites(n, t int32) bool {
	return p.Tensors[t].Producer != n && slices.Contains(p.Nodes[n].Writes, t)
}

// unroll returns the problem whose nodes are the steps.
func (u *unrolling) unroll() (*core.Problem, error) {
	p := u.p
	u.c = &core.Problem{Nodes: make([]core.Node, len(u.steps)), Work: make([]int64, len(u.steps)), Inplace: true, Sums: &core.Sums{}}
	u.all = make([][]instance, len(p.Tensors))
	u.host, u.left = make([]int, len(u.swaps)), make([]int32, len(u.swaps))
	for k, s := range u.swaps {
		if u.host[k] = -1; s.Tensor < 0 || int(s.Tensor) >= len(p.Tensors) {
			return nil, fmt.Errorf("swap %d of tensor %d: expected one below %d", k, s.Tensor, len(p.Tensors))
		}
	}
	for i := range p.Tensors {
		if p.Tensors[i].Producer < 0 {
			u.make(core.None, int32(i), 0)
		}
	}
	ran := make([]bool, len(p.Nodes))
	for k, n := range u.steps {
		step := int32(k)
		if int(n) >= len(p.Nodes) {
			if err := u.transfer(step, int(n)-len(p.Nodes)); err != nil {
				return nil, err
			}
			continue
		}
		if ran[n] && p.Nodes[n].Once {
			return nil, fmt.Errorf("step %d: node %d runs again: expected it once", k, n)
		}
		if err := u.run(step, n, ran[n]); err != nil {
			return nil, err
		}
		ran[n] = true
	}
	for i := range p.Tensors {
		if !p.Tensors[i].Output {
			continue
		}
		x := u.newest(int32(i), u.final[i])
		if x == nil {
			return nil, fmt.Errorf("output %d: expected it at the end, as it was after the first run of each node", i)
		}
		u.c.Storages[x.storage].Output = true
	}
	for k, state := range u.host {
		if state != -2 {
			return nil, fmt.Errorf("swap %d of tensor %d: expected it out and in", k, u.swaps[k].Tensor)
		}
	}
	return u.c, u.c.Check()
}

// run runs a node.
func (u *unrolling) run(step, n int32, again bool) error {
	p, c := u.p, u.c
	c.Work[step] = p.Nodes[n].Workspace
	read := map[int32]int32{} // by tensor: the storage of the instance
	for _, t := range u.reads[n] {
		x := u.newest(t, u.found[n][t])
		if x == nil {
			return fmt.Errorf("step %d: node %d reads tensor %d: expected an instance that %d nodes have overwritten", step, n, t, u.found[n][t])
		}
		u.read(step, x.storage)
		read[t] = x.storage
		if p.overwrites(n, t) {
			if again && p.Tensors[t].Resident {
				return fmt.Errorf("step %d: node %d overwrites resident tensor %d: expected it once", step, n, t)
			}
			x.version++
		}
	}
	for _, t := range u.makes[n] {
		made := u.make(step, t, 0)
		for _, o := range p.Tensors[t].Over {
			if over, ok := read[o]; ok && p.Tensors[o].Bytes == p.Tensors[t].Bytes && !p.Tensors[o].Output {
				c.Nodes[step].Over = append(c.Nodes[step].Over, core.Pair{Result: made, Over: over})
			}
		}
	}
	return nil
}

// transfer runs a transfer: 2k is the end of that out of swap k, 2k+1 the begin of that in.
func (u *unrolling) transfer(step int32, which int) error {
	k, t := which/2, u.swaps[which/2].Tensor
	switch {
	case which%2 == 0 && u.host[k] == -1 && len(u.all[t]) > 0:
		x := u.all[t][len(u.all[t])-1]
		u.read(step, x.storage)
		u.host[k], u.left[k] = x.version, step
	case which%2 == 1 && u.host[k] >= 0:
		u.c.Nodes[step].After = append(u.c.Nodes[step].After, u.left[k])
		u.make(step, t, u.host[k])
		u.host[k] = -2
	default:
		return fmt.Errorf("step %d: swap %d of tensor %d: expected it made, then out, then in, each once", step, k, t)
	}
	return nil
}

// newest is the newest instance of a version; nil: there is none.
func (u *unrolling) newest(t int32, version int) *instance {
	for i, x := range slices.Backward(u.all[t]) {
		if x.version == version {
			return &u.all[t][i]
		}
	}
	return nil
}

// make adds an instance.
func (u *unrolling) make(step, t int32, version int) (storage int32) {
	storage = int32(len(u.c.Storages))
	u.c.Storages = append(u.c.Storages, core.Storage{Bytes: u.p.Tensors[t].Bytes, Maker: step, Resident: u.p.Tensors[t].Resident})
	if step >= 0 {
		u.c.Nodes[step].Writes = append(u.c.Nodes[step].Writes, storage)
	}
	u.all[t] = append(u.all[t], instance{storage, version})
	return storage
}

// read notes that a step reads a storage.
func (u *unrolling) read(step, storage int32) {
	st := &u.c.Storages[storage]
	st.Readers = append(st.Readers, step)
	n := &u.c.Nodes[step]
	n.Reads = append(n.Reads, storage)
	if st.Maker >= 0 {
		n.After = append(n.After, st.Maker)
	}
}
