package passes

import (
	"context"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// repetition is the main graph before nodes were made to run again, and what became
// of its nodes.
type repetition struct {
	before *region      // ordered
	costs  []int64      // of its nodes, by their steps
	of     []int        // of each node of the graph with the repetitions, as listed: the one that it repeats, or itself
	first  []int        // of each node of before, by its step: where it is listed first
	plain  *graph.Graph // a copy of before's

	// Once the nodes stand in their order:
	firstStep []int // of each node of before, by its step: the step of its first run
	repeats   []int // of each step: the first run of the same node
}

// repeatable prepares the main graph for repetitions: it is copied, since Repeat
// works on the graph that it is given.
func (s *State) repeatable() *repetition {
	costs, unknown := s.costs(s.main)
	switch {
	case unknown == 1:
		s.notes = append(s.notes, "costs: 1 name is that of no node")
	case unknown > 1:
		s.notes = append(s.notes, fmt.Sprintf("costs: %d names are those of no node", unknown))
	}
	same := make([]int, len(costs))
	for i := range same {
		same[i] = i
	}
	return &repetition{before: s.main, costs: costs, of: same, first: same, plain: s.main.g.Clone()}
}

// repeat makes s.main the graph in which the nodes of before run in the sequence of
// steps, and plans it as far as its order: that of the steps, unless a search finds
// one of a smaller peak. Steps beyond those of before take the tensors swaps away and
// bring them back, as graph.Repeat has it.
func (s *State) repeat(ctx context.Context, rep *repetition, steps []int, swaps []graph.TensorID) error {
	g := rep.plain.Clone()
	list := make([]graph.NodeID, len(steps))
	for i, n := range steps {
		list[i] = graph.NodeID(n)
	}
	statistics := rep.before.statistics()
	unused := stubs(g, list, statistics)
	made, err := g.Repeat(list, graph.RepeatOptions{
		Views: !s.opt.NoViews, Optional: ops.Optional, Swaps: swaps,
		Instead: func(n graph.NodeID, in int) (graph.TensorID, bool) {
			for _, x := range statistics[n] {
				if x.in == in {
					return unused[g.Nodes[n].Inputs[in]], true
				}
			}
			return graph.None, false
		},
		Byproduct: func(n graph.NodeID, out int) bool {
			for _, x := range statistics[n] {
				if x.out == out {
					return true
				}
			}
			return false
		},
	})
	if err != nil {
		return fmt.Errorf("internal error in a plan with repetitions: %w", err)
	}
	rep.of, rep.first = indices(made.Of), indices(made.First)
	s.model.Graph = g
	s.main = s.newRegion(g, mainGraph)
	if err := s.share(s.main); err != nil {
		return err
	}
	if err := s.updates(s.main); err != nil {
		return err
	}
	if err := s.bodies(ctx, s.main); err != nil {
		return err
	}
	return s.order(ctx, s.main)
}

func indices(list []graph.NodeID) []int {
	out := make([]int, len(list))
	for i, n := range list {
		out[i] = int(n)
	}
	return out
}

// statistic is an output of a node that is written over an input, neither of which
// has to do with what the node is run again for: a running mean or variance.
type statistic struct{ in, out int }

// statistics gives what nodes write over parameters and states on the way. Other
// nodes that write over them are updates: see once.
func (r *region) statistics() map[graph.NodeID][]statistic {
	found := map[graph.NodeID][]statistic{}
	r.writers(func(n graph.NodeID, in, out int) {
		if !ops.Depends(r.g.Nodes[n], 0, in) {
			found[n] = append(found[n], statistic{in, out})
		}
	})
	return found
}

// stubs gives for each statistic what repetitions read in its place: zeros, which
// one tensor holds for all of a type and shape. They could not read the statistic
// itself, which the first run has written over. Nor what that run has made:
// ONNX Runtime lets BatchNormalization in training write over what it reads (1.31
// does, even over what the graph puts out), and would take the average twice.
func stubs(g *graph.Graph, steps []graph.NodeID, statistics map[graph.NodeID][]statistic) map[graph.TensorID]graph.TensorID {
	found := map[graph.TensorID]graph.TensorID{}
	zeros := map[string]graph.TensorID{} // by type and shape
	runs := make([]int, len(g.Nodes))
	for _, n := range steps {
		if int(n) >= len(runs) {
			continue // it takes a tensor away, or brings it back
		}
		if runs[n]++; runs[n] != 2 {
			continue
		}
		for _, x := range statistics[n] {
			in := g.Nodes[n].Inputs[x.in]
			t := g.Tensors[in]
			key := t.Type.String()
			if _, made := zeros[key]; !made {
				zeros[key] = zero(g, t)
			}
			found[in] = zeros[key]
		}
	}
	return found
}

// zero adds an initializer of zeros to g, of the type and shape of t.
func zero(g *graph.Graph, t *graph.Tensor) graph.TensorID {
	dims := make([]int64, len(t.Type.Shape))
	for i, n := range t.Type.Shape {
		dims[i] = int64(n)
	}
	name := g.Unique(fmt.Sprintf("onnxmem.unread.%v%v", t.Type.Elem, dims))
	id := g.NewTensor(name)
	g.Tensors[id].Data = &graph.Data{Name: name, Type: t.Type.Elem, Dims: dims, Raw: make([]byte, t.Bytes), Bytes: t.Bytes}
	g.Tensors[id].Type, g.Tensors[id].Bytes = t.Type, t.Bytes
	return id
}

// writers calls f for every output that is written over a parameter or state.
func (r *region) writers(f func(n graph.NodeID, in, out int)) {
	for _, c := range r.chained {
		for k, over := range c.storages[:len(c.storages)-1] {
			result := &r.storages[c.storages[k+1]]
			n := r.g.Nodes[result.maker]
			for _, a := range n.Semantics.Inplace {
				if n.Outputs[a.Out] == result.tensors[0] && r.of[n.Inputs[a.In]] == over {
					f(result.maker, a.In, a.Out)
				}
			}
		}
	}
}

// once reports for each node of a region whether it must not run again: its result
// differs from run to run, unless a seed gives it again; nobody knows its operator;
// or it updates a parameter or state.
func (r *region) once() []bool {
	list := graph.Effects(r.g)
	for i, n := range r.g.Nodes {
		list[i] = list[i] && !ops.Seeded(n) || n.IsSwap()
	}
	r.writers(func(n graph.NodeID, in, _ int) {
		list[n] = list[n] || ops.Depends(r.g.Nodes[n], 0, in)
	})
	return list
}

// budgetProblem is the bare problem of a region with what repetitions ask for.
func (s *State) budgetProblem(r *region, costs []int64) *schedule.Problem {
	p := s.problem(r)
	once := r.once()
	for i, n := range r.g.Nodes {
		v := &p.Nodes[i]
		v.Cost, v.Once = costs[i], once[i]
		v.Writes = []int32{} // known: nothing, but for updates
		n.Reads(func(t graph.TensorID) {
			if over := r.of[t]; over != noStorage {
				v.Args = append(v.Args, over)
			}
		})
	}
	// Statistics are not written again: BatchNormalization in training may run again.
	r.writers(func(n graph.NodeID, in, _ int) {
		if !ops.Depends(r.g.Nodes[n], 0, in) {
			return
		}
		v := &p.Nodes[n]
		v.Writes = append(v.Writes, r.of[r.g.Nodes[n].Inputs[in]])
	})
	return p
}

// place notes where the nodes run in r. Of a node and its repetitions the order may
// put any first: they do the same.
func (rep *repetition) place(r *region) {
	at := make([]int, len(rep.of)) // of each node as listed
	for n := range at {
		if at[n] = n; r != rep.before { // otherwise nothing runs again, and nothing has moved
			at[n] = int(r.step[n])
		}
	}
	first := slices.Clone(at) // of those that repeat the same, by the one that was listed first
	for n, of := range rep.of {
		first[of] = min(first[of], at[n])
	}
	rep.firstStep = make([]int, len(rep.first))
	for n, listed := range rep.first {
		rep.firstStep[n] = first[listed]
	}
	rep.repeats = make([]int, len(at))
	for n, of := range rep.of {
		rep.repeats[at[n]] = first[of]
	}
}

// annotate says in the steps of the plan what repeats what, and what each costs.
func (rep *repetition) annotate(steps []plan.Step) {
	for n, step := range rep.firstStep {
		steps[step].CostNS = rep.costs[n]
	}
	for i, first := range rep.repeats {
		if first != i {
			steps[i].Again, steps[i].CostNS = &first, steps[first].CostNS
		}
	}
}
