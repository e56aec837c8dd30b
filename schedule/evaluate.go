package schedule

import (
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/internal/match"
)

// Evaluation is what an order costs.
type Evaluation struct {
	Loads    []int64 // bytes live at each step
	Peak     int64   // the largest load; without nodes, the bytes of the inputs
	PeakStep int     // the first step of the largest load
	Taken    []Pair  // the in-place pairs, by step, then by Result
}

// Values of the argument above of [Problem.EvaluateSharing].
const (
	AllPairs = -1            // every pair that saves something
	NoPairs  = math.MaxInt64 // none
)

// Evaluate returns the load at each step of an order, with as many bytes saved
// by in-place pairs as the order allows. The order must hold each node once,
// after all whose tensors it reads. O(E) beside the matchings, which are small:
// see [Problem.EvaluateSharing].
//
// A tensor made by no node is live from step 0 to its last reader, or at step 0
// alone if it has none. One that a node makes is live from there to its last
// reader, or at that step alone if it has none. An output is live to the last
// step. Resident tensors and those of 0 bytes count nothing.
func (p *Problem) Evaluate(order []int32) (Evaluation, error) {
	return p.EvaluateSharing(order, AllPairs)
}

// EvaluateSharing is [Problem.Evaluate] with in-place pairs taken only at the
// steps whose load without them would exceed above. With above = [AllPairs] it
// takes all, with [NoPairs] none, with the order's own peak no more than that
// peak needs: each pair ties two tensors to one place, which can cost more in
// fragmentation than it saves.
//
// At each such step the node takes a largest matching of its pairs whose
// tensor has no other reader left. Ties fall to the smaller tensor indices.
func (p *Problem) EvaluateSharing(order []int32, above int64) (Evaluation, error) {
	if err := p.Validate(); err != nil {
		return Evaluation{}, err
	}
	f := flatten(p)
	if err := p.checkOrder(f, order); err != nil {
		return Evaluation{}, err
	}
	return f.evaluate(order, above), nil
}

// checkOrder says where an order is not a topological order of all nodes.
func (p *Problem) checkOrder(f *flat, order []int32) error {
	if len(order) != f.nodes {
		return fmt.Errorf("order: expected %d nodes, found %d", f.nodes, len(order))
	}
	step := make([]int, f.nodes) // 1 + the step of the node
	for i, v := range order {
		if v < 0 || int(v) >= f.nodes {
			return fmt.Errorf("order: step %d: expected a node below %d, found %d", i, f.nodes, v)
		}
		if step[v] != 0 {
			return fmt.Errorf("order: step %d: %s stands at step %d too", i, p.node(v), step[v]-1)
		}
		step[v] = i + 1
		for _, t := range f.read.of(v) {
			if m := f.producer[t]; m >= 0 && step[m] == 0 {
				return fmt.Errorf("order: step %d: %s reads %s: expected %s before it", i, p.node(v), p.tensor(t), p.node(m))
			}
		}
	}
	return nil
}

func (f *flat) evaluate(order []int32, above int64) Evaluation {
	e := Evaluation{Loads: make([]int64, len(order))}
	live, idle := f.inputs()
	if len(order) == 0 {
		e.Peak = live + idle
		return e
	}
	unread := f.unread()
	m := match.New(len(f.size))
	var free []Pair
	for i, v := range order {
		load := live + f.workspace[v]
		if i == 0 {
			load += idle
		}
		for _, t := range f.made.of(v) {
			load += f.size[t]
			if f.kept(t) {
				live += f.size[t]
			}
		}
		if load > above {
			free = free[:0]
			for _, pair := range f.pairsOf(v) {
				if unread[pair.Over] == 1 {
					free = append(free, pair)
				}
			}
			from := len(e.Taken)
			e.Taken = m.Largest(e.Taken, free)
			load -= f.saved(e.Taken[from:])
		}
		for _, t := range f.read.of(v) {
			if unread[t]--; unread[t] == 0 && !f.output[t] {
				live -= f.size[t]
			}
		}
		e.Loads[i] = load
		if load > e.Peak {
			e.Peak, e.PeakStep = load, i
		}
	}
	return e
}

// inputs returns the bytes that no node makes: those that are live before the
// first step and after it, and those that nobody reads, live at step 0 alone.
func (f *flat) inputs() (live, idle int64) {
	for t, v := range f.producer {
		switch {
		case v >= 0:
		case f.kept(int32(t)):
			live += f.size[t]
		default:
			idle += f.size[t]
		}
	}
	return live, idle
}

func (f *flat) saved(pairs []Pair) (size int64) {
	for _, pair := range pairs {
		size += f.size[pair.Over]
	}
	return size
}
