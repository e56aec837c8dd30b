package schedule

import (
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/internal/match"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// Evaluation has the loads of an order.
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
// by in-place pairs as the order allows. It fails unless the order contains each node
// once, after its predecessors. O(E), besides the matchings, which are small: see
// [Problem.EvaluateSharing].
//
// A tensor is live from the step that makes it, an input from step 0, to the step of its
// last reader. If it has no reader, it is live at that first step only. An output is live
// to the last step. Resident tensors do not count.
func (p *Problem) Evaluate(order []int32) (Evaluation, error) {
	return p.EvaluateSharing(order, AllPairs)
}

// EvaluateSharing is [Problem.Evaluate] with in-place pairs taken only at the steps whose
// load without them exceeds above. With above = [AllPairs] it takes all pairs, with
// [NoPairs] none, and with the order's own peak only those that the peak needs. Each pair
// gives two tensors one offset, which can cost more in fragmentation than it saves.
//
// At each such step the node takes a largest matching of those of its pairs whose
// overwritten tensor has no other reader left. Ties fall to the smaller tensor indices.
func (p *Problem) EvaluateSharing(order []int32, above int64) (Evaluation, error) {
	if err := p.Validate(); err != nil {
		return Evaluation{}, err
	}
	f := index(p)
	if err := p.checkOrder(f, order); err != nil {
		return Evaluation{}, err
	}
	return evaluate(f, order, above), nil
}

// checkOrder returns an error if order is not a topological order of all nodes.
func (p *Problem) checkOrder(f *indexed.Graph, order []int32) error {
	if len(order) != f.Nodes {
		return fmt.Errorf("order: expected %d nodes, found %d", f.Nodes, len(order))
	}
	step := make([]int, f.Nodes) // 1 + the step of the node
	for i, v := range order {
		if v < 0 || int(v) >= f.Nodes {
			return fmt.Errorf("order: step %d: expected a node below %d, found %d", i, f.Nodes, v)
		}
		if step[v] != 0 {
			return fmt.Errorf("order: step %d: %s is at step %d as well", i, p.node(v), step[v]-1)
		}
		step[v] = i + 1
		for _, t := range f.Reads.Of(v) {
			if m := f.Producer[t]; m >= 0 && step[m] == 0 {
				return fmt.Errorf("order: step %d: %s reads %s: expected %s before it", i, p.node(v), p.tensor(t), p.node(m))
			}
		}
	}
	return nil
}

func evaluate(f *indexed.Graph, order []int32, above int64) Evaluation {
	e := Evaluation{Loads: make([]int64, len(order))}
	live, idle := f.InputBytes()
	if len(order) == 0 {
		e.Peak = live + idle
		return e
	}
	unread := f.Unread()
	m := match.New(len(f.Size))
	var free []Pair
	for i, v := range order {
		load := live + f.Workspace[v]
		if i == 0 {
			load += idle
		}
		for _, t := range f.Makes.Of(v) {
			load += f.Size[t]
			if f.Kept(t) {
				live += f.Size[t]
			}
		}
		if load > above {
			free = free[:0]
			for _, pair := range f.PairsOf(v) {
				if unread[pair.Over] == 1 {
					free = append(free, pair)
				}
			}
			from := len(e.Taken)
			e.Taken = m.Largest(e.Taken, free)
			load -= f.Saved(e.Taken[from:])
		}
		for _, t := range f.Reads.Of(v) {
			if unread[t]--; unread[t] == 0 && !f.Output[t] {
				live -= f.Size[t]
			}
		}
		e.Loads[i] = load
		if load > e.Peak {
			e.Peak, e.PeakStep = load, i
		}
	}
	return e
}
