package repeat

import (
	"context"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// Repetition describes the main graph before recomputation, and where its nodes
// run afterwards.
type Repetition struct {
	Before   *planner.Region // in its order
	Costs    []int64         // of the nodes of before, by step
	stepOf   []graph.NodeID  // of before, by index in the file
	original []int           // of each node of the repeated graph, as listed: the node of before that it repeats, or itself
	first    []int           // of each node of before, by step: its first index in the list
	plain    *graph.Graph    // a copy of before's graph
	zeros    map[string]bool // the names of the tensors that repetitions read instead of statistics: see stubs

	// Set once the nodes of the repeated graph are in their order:
	FirstStep []int // of each node of before, by step: the step of its first run
	repeats   []int // of each step: the first run of the same node
}

// New prepares a main graph, whose nodes have these costs, for recomputation. It
// copies the graph, since graph.Repeat changes its argument.
func New(r *planner.Region, costs []int64) *Repetition {
	same := make([]int, len(costs))
	for i := range same {
		same[i] = i
	}
	return &Repetition{Before: r, Costs: costs, stepOf: slices.Clone(r.StepOf), original: same, first: same, plain: r.G.Clone()}
}

// Turned returns a trial in which the nodes of before run in the sequence of steps. Its main graph is
// in its order, which is that of the steps unless a search finds a smaller peak; of a box, it is one
// for all points, which keeps the limit where it can. Steps at or above the number of nodes swap the
// tensors of swaps out and in, in the encoding of graph.Repeat. of is the trial of before.
//
// The search may put any run of a node first, but not one that lacks what another run has: a plan
// calls the others repetitions of the first. It is asked again then.
func (rep *Repetition) Turned(ctx context.Context, of *planner.Trial, steps []int, swaps []graph.TensorID, x *planner.Search, keep *box.Ceiling) (*planner.Trial, error) {
	t, err := rep.repeated(ctx, of, steps, swaps, x, keep)
	if err == nil && rep.outOfTurn(t.Main) {
		inTurn := *x
		inTurn.Turns = rep.turns(t.Main)
		t, err = rep.repeated(ctx, of, steps, swaps, &inTurn, keep)
	}
	return t, err
}

// outOfTurn reports whether the first run of some node in the order of r lacks what the one that
// is listed first has.
func (rep *Repetition) outOfTurn(r *planner.Region) bool {
	at, first := rep.steps(r), rep.firstRuns(r)
	for n, of := range rep.original {
		if at[n] == first[of] && rep.lacks(r, n) {
			return true
		}
	}
	return false
}

// turns pairs the first run that is listed of each node with those that lack something of it.
func (rep *Repetition) turns(r *planner.Region) (pairs [][2]int32) {
	for n, of := range rep.original {
		if rep.lacks(r, n) {
			pairs = append(pairs, [2]int32{int32(of), int32(n)})
		}
	}
	return pairs
}

// lacks reports whether the n-th listed node of r repeats another one without an output of it, or
// reads zeros in place of a statistic. The run that is listed first lacks neither.
func (rep *Repetition) lacks(r *planner.Region, n int) bool {
	made := func(n int) (count int) {
		for _, t := range r.G.Nodes[r.At(n)].Outputs {
			if t >= 0 {
				count++
			}
		}
		return count
	}
	zeros := slices.ContainsFunc(r.G.Nodes[r.At(n)].Inputs, func(t graph.TensorID) bool {
		return t >= 0 && rep.zeros[r.G.Tensors[t].Name]
	})
	return zeros || made(n) < made(rep.original[n])
}

// repeated is turned, but that any run may come first.
func (rep *Repetition) repeated(ctx context.Context, of *planner.Trial, steps []int, swaps []graph.TensorID, x *planner.Search, keep *box.Ceiling) (*planner.Trial, error) {
	t, err := rep.listed(of, steps, swaps)
	if err != nil {
		return nil, err
	}
	if err := t.PlanBodies(ctx, x); err != nil {
		return nil, err
	}
	repeatScratch(t.Main, rep)
	return t, t.Order(ctx, x, keep)
}

// listed is repeated in the sequence of steps, before its bodies are planned.
func (rep *Repetition) listed(of *planner.Trial, steps []int, swaps []graph.TensorID) (*planner.Trial, error) {
	g := rep.plain.Clone()
	list := make([]graph.NodeID, len(steps))
	for i, n := range steps {
		list[i] = graph.NodeID(n)
	}
	statistics := statistics(rep.Before)
	unused := stubs(g, list, statistics)
	rep.zeros = map[string]bool{}
	for _, t := range unused {
		rep.zeros[g.Tensors[t].Name] = true
	}
	made, err := g.Repeat(list, graph.RepeatOptions{
		Views: !rep.Before.NoViews, Optional: ops.Optional, Swaps: swaps,
		Instead: func(n graph.NodeID, in int) (graph.TensorID, bool) {
			for _, y := range statistics[n] {
				if y.in == in {
					return unused[g.Nodes[n].Inputs[in]], true
				}
			}
			return graph.None, false
		},
		Byproduct: func(n graph.NodeID, out int) bool {
			for _, y := range statistics[n] {
				if y.out == out {
					return true
				}
			}
			return false
		},
	})
	if err != nil {
		return nil, fmt.Errorf("internal error in a plan with repetitions: %w", err)
	}
	rep.original, rep.first = indices(made.Of), indices(made.First)
	t, m := *of, *of.Model
	m.Graph = g
	t.Model = &m
	t.Main, err = rep.Before.Rules.Shared(&m, of.Inference.Given, rep.Before.Calls)
	return &t, err
}

// repeatScratch gives the nodes of the repeated graph the scratch of those that they repeat.
func repeatScratch(r *planner.Region, rep *Repetition) {
	if rep.Before.Scratch == nil {
		return
	}
	scratch := make([]int64, len(r.G.Nodes))
	for n, listed := range rep.first {
		scratch[listed] = rep.Before.Scratch[n]
	}
	for n, first := range rep.original {
		scratch[n] = scratch[first]
	}
	r.AddScratch(scratch)
}

func indices(list []graph.NodeID) []int {
	out := make([]int, len(list))
	for i, n := range list {
		out[i] = int(n)
	}
	return out
}

// statistic is an output that a node writes over an input, a running mean or
// variance. The other outputs of the node, for which it is recomputed, depend on
// neither.
type statistic struct{ in, out int }

// statistics returns the statistics that nodes write over parameters and states.
// Other nodes that write over them are updates: see MustRunOnce.
func statistics(r *planner.Region) map[graph.NodeID][]statistic {
	found := map[graph.NodeID][]statistic{}
	writers(r, func(n graph.NodeID, in, out int) {
		if !ops.Depends(r.G.Nodes[n], 0, in) {
			found[n] = append(found[n], statistic{in, out})
		}
	})
	return found
}

// stubs returns for each statistic the tensor that a repetition reads instead:
// zeros, one tensor for all statistics of a type and shape. A repetition cannot
// read the statistic itself, since the first run has overwritten it. Nor may it
// read the result of the first run: ONNX Runtime lets BatchNormalization in
// training overwrite its input (version 1.31 does so even if that is a graph
// output), and would apply the average twice.
func stubs(g *graph.Graph, steps []graph.NodeID, statistics map[graph.NodeID][]statistic) map[graph.TensorID]graph.TensorID {
	found := map[graph.TensorID]graph.TensorID{}
	zeros := map[string]graph.TensorID{} // by type and shape
	runs := make([]int, len(g.Nodes))
	for _, n := range steps {
		if int(n) >= len(runs) {
			continue // a swap
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

// zero adds an initializer of zeros to g, with the type and shape of t.
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

// writers calls f for every output that overwrites a parameter or state.
func writers(r *planner.Region, f func(n graph.NodeID, in, out int)) {
	for _, c := range r.UpdateChains {
		for k, over := range c.Storages[:len(c.Storages)-1] {
			result := &r.Storages[c.Storages[k+1]]
			n := r.G.Nodes[result.Maker]
			for _, a := range n.Semantics.Inplace {
				if n.Outputs[a.Out] == result.Tensors[0] && r.StorageOf[n.Inputs[a.In]] == over {
					f(result.Maker, a.In, a.Out)
				}
			}
		}
	}
}

// MustRunOnce reports for each node of a region whether it must not run again: its
// result is random without a seed, its operator is unknown, or it updates a
// parameter or state.
func MustRunOnce(r *planner.Region) []bool {
	list := graph.Effects(r.G)
	for i, n := range r.G.Nodes {
		list[i] = list[i] && !ops.Seeded(n) || n.IsSwap()
	}
	writers(r, func(n graph.NodeID, in, _ int) {
		list[n] = list[n] || ops.Depends(r.G.Nodes[n], 0, in)
	})
	return list
}

// BudgetProblem makes the bare problem of a region, with the fields that
// recomputation needs.
func BudgetProblem(r *planner.Region, costs []int64) *schedule.Problem {
	p := r.Problem()
	once := MustRunOnce(r)
	for i, n := range r.G.Nodes {
		v := &p.Nodes[i]
		v.Cost, v.Once = costs[i], once[i]
		v.Writes = []int32{} // known to write nothing, except for updates
		n.Reads(func(t graph.TensorID) {
			if over := r.StorageOf[t]; over != planner.NoStorage {
				v.Args = append(v.Args, over)
			}
		})
	}
	// A repeated BatchNormalization does not write its statistics, so it may run
	// again.
	writers(r, func(n graph.NodeID, in, _ int) {
		if !ops.Depends(r.G.Nodes[n], 0, in) {
			return
		}
		v := &p.Nodes[n]
		v.Writes = append(v.Writes, r.StorageOf[r.G.Nodes[n].Inputs[in]])
	})
	return p
}

// InFile lets the nodes of before be identified by their indices in the file, as they are once
// [planner.Region.WithAliases] has found aliases in it.
func (rep *Repetition) InFile() {
	costs := make([]int64, len(rep.Costs))
	for n, step := range rep.stepOf {
		costs[n] = rep.Costs[step]
	}
	rep.Costs = costs
}

// steps returns the step in r of each node as listed.
func (rep *Repetition) steps(r *planner.Region) []int {
	at := make([]int, len(rep.original))
	for n := range at {
		if at[n] = n; r != rep.Before { // otherwise nothing is repeated and nothing has moved
			at[n] = int(r.StepOf[n])
		}
	}
	return at
}

// firstRuns returns the step in r of the first run of each node, by the run that is listed
// first.
func (rep *Repetition) firstRuns(r *planner.Region) []int {
	at := rep.steps(r)
	first := slices.Clone(at)
	for n, of := range rep.original {
		first[of] = min(first[of], at[n])
	}
	return first
}

// Place records the steps at which nodes run in r. The order may put any run of a
// node first, since all runs compute the same.
func (rep *Repetition) Place(r *planner.Region) {
	at, first := rep.steps(r), rep.firstRuns(r)
	rep.FirstStep = make([]int, len(rep.first))
	for n, listed := range rep.first {
		rep.FirstStep[n] = first[listed]
	}
	rep.repeats = make([]int, len(at))
	for n, of := range rep.original {
		rep.repeats[at[n]] = first[of]
	}
}

// Annotate records in the steps of the plan which node each one repeats, and its
// cost.
func (rep *Repetition) Annotate(steps []plan.Step) {
	for n, step := range rep.FirstStep {
		steps[step].CostNS = rep.Costs[n]
	}
	for i, first := range rep.repeats {
		if first != i {
			steps[i].Again, steps[i].CostNS = &first, steps[first].CostNS
		}
	}
}

// TakeBound gives r, in which casts run again, the bound of the problem with casts apart, which was
// solved for the graph before. Its certificates name nodes by their first runs.
func (rep *Repetition) TakeBound(r *planner.Region, apart *schedule.Result) {
	solved := *r.Solved
	solved.Bound, solved.KeptBound = apart.Bound, apart.KeptBound
	solved.Certificates = slices.Clone(apart.Certificates)
	for i := range solved.Certificates {
		c := &solved.Certificates[i]
		c.Nodes = slices.Clone(c.Nodes)
		for k, n := range c.Nodes {
			c.Nodes[k] = int32(rep.first[n])
		}
	}
	solved.Optimal = r.Loads.Peak == solved.Bound
	r.Solved, r.Recast = &solved, true
}
