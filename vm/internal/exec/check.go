package exec

import (
	"context"
	"hash/maphash"
	"maps"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/program"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// Difference compares one output of a planned run with that of a run in which every
// tensor has its own storage and the nodes run in another order.
type Difference struct {
	Name        string
	Identical   bool // bit for bit
	MaxAbsError float64
}

// Check is the result of CheckRun.
type Check struct {
	Outputs []Difference
	// Runs is the number of runs that were compared, up to the first that differs.
	Runs int
	// First names the first node of that run, in the planned order, and the tensor,
	// whose result differs although its inputs do not; nil if there is none.
	First error
}

// Identical reports whether all outputs are identical, bit for bit.
func (c *Check) Identical() bool {
	return !slices.ContainsFunc(c.Outputs, func(d Difference) bool { return !d.Identical })
}

// CheckRun runs the program twice: as planned, and with separate tensors in another
// topological order (Options.Separate). runs are the inputs of successive runs, as for
// Session.Run; each side keeps its parameters and states from run to run. A stray
// write that Options.Poison finds is an error. ctx stops the runs as in Session.Run. With
// a plan for ranges of dimensions, all runs have the same lengths. If an output differs,
// both run again, and their nodes are compared; on a device that is without replay.
func CheckRun(ctx context.Context, p *program.Program, runs []map[string]values.Value, opt lower.Options) (*Check, error) {
	p, err := p.AtRuns(runs)
	if err != nil {
		return nil, err
	}
	opt.LeaveUpdates = true // until the last run: they may be most of what a run returns
	c, err := compareRuns(ctx, p, runs, opt, nil)
	if err != nil || c.Identical() {
		return c, err
	}
	sums := &nodeSums{seed: maphash.MakeSeed()}
	opt.LeaveUpdates = false
	each, err := compareRuns(ctx, p, runs[:c.Runs], opt, sums)
	if err != nil || each.Identical() { // so only replayed runs differ
		return c, err
	}
	each.First = firstDifference(p, sums, each.Runs)
	return each, nil
}

// nodeSums are hashes of what the nodes of both sides computed in a run, by tensor.
type nodeSums struct {
	seed maphash.Seed
	of   [2]map[string]uint64
}

// compareRuns runs both sides, up to the first run whose outputs differ. sums takes the
// results of its nodes, if it is not nil.
func compareRuns(ctx context.Context, p *program.Program, runs []map[string]values.Value, opt lower.Options, sums *nodeSums) (*Check, error) {
	var sessions [2]*Session
	for k := range sessions {
		opt.Separate = k == 1
		s, err := NewSession(p, opt)
		if err != nil {
			return nil, err
		}
		defer s.Close()
		sums.watch(s, k)
		sessions[k] = s
	}
	c := &Check{}
	for _, inputs := range runs {
		var outs [2]map[string]values.Value
		for k, s := range sessions {
			if sums != nil {
				sums.of[k] = map[string]uint64{}
			}
			var err error
			if outs[k], err = s.Run(ctx, inputs); err != nil {
				return nil, err
			}
		}
		if c.Runs++; c.Runs == len(runs) && opt.LeaveUpdates {
			for k, s := range sessions {
				updates, err := s.Updates()
				if err != nil {
					return nil, err
				}
				maps.Copy(outs[k], updates)
			}
		}
		c.Outputs = differences(p, outs)
		if !c.Identical() {
			break
		}
	}
	return c, nil
}

// watch takes the results of a session's nodes as those of side k.
func (sums *nodeSums) watch(s *Session, k int) {
	if sums == nil {
		return
	}
	// This must come before the watcher poisons the outputs that die at once.
	s.tape.after = slices.Insert(s.tape.after, 0, func(st *lower.Step, _ int) error {
		if st.Node().IsSwapIn() {
			return nil // the copy may be in progress; its readers' outputs are compared
		}
		for _, t := range st.Out {
			// A node with a fused activation produces the activation's output,
			// which is compared there. Constants may be freed. Bytes in the place
			// of reals are compared where they have been copied.
			if t != nil && !t.Const && t.Quantized == nil && !t.Inside {
				sums.of[k][t.Name] = s.sum(sums.seed, t)
			}
		}
		return nil
	})
}

// sum hashes the value of a tensor.
func (s *Session) sum(seed maphash.Seed, t *values.Tensor) uint64 {
	s.ToHost(t)
	if t.Box == nil && t.Type != graph.String {
		return maphash.Bytes(seed, values.BytesOf(t))
	}
	var h maphash.Hash
	h.SetSeed(seed)
	v, err := s.ValueOf(t)
	if err != nil { // a fault of the run, which reports it where the string is read
		return h.Sum64()
	}
	v.Hash(&h)
	return h.Sum64()
}

// differences compares the outputs of two runs.
func differences(p *program.Program, outs [2]map[string]values.Value) []Difference {
	var list []Difference
	for _, t := range p.Outputs() {
		a, b := outs[0][t.Name], outs[1][t.Name]
		d := Difference{Name: t.Name, Identical: a.Equal(b)}
		if !d.Identical {
			d.MaxAbsError = maxAbsError(a, b)
		}
		list = append(list, d)
	}
	return list
}

// maxAbsError is the largest difference of two elements at the same place. It is
// infinite if the shapes differ, or if one element is NaN where the other is not.
func maxAbsError(a, b values.Value) float64 {
	x, ok := a.Reals()
	y, fits := b.Reals()
	if !ok || !fits || len(x) != len(y) {
		return math.Inf(1)
	}
	worst := 0.0
	for i := range x {
		switch d := math.Abs(x[i] - y[i]); {
		case x[i] == y[i] || x[i] != x[i] && y[i] != y[i]:
		case d != d:
			return math.Inf(1)
		default:
			worst = max(worst, d)
		}
	}
	return worst
}

// firstDifference names the first node, in the planned order, whose result differs.
func firstDifference(p *program.Program, sums *nodeSums, run int) error {
	g := p.Model.Graph
	for i, n := range g.Nodes {
		for _, t := range n.Outputs {
			if t < 0 {
				continue
			}
			planned, is := sums.of[0][g.Tensors[t].Name]
			apart, both := sums.of[1][g.Tensors[t].Name]
			if !is || !both || planned == apart {
				continue
			}
			e := graph.Errorf("run %d, step %d: has other bits in its planned place than in separate storage", run, i).AtNode(g.Label(graph.NodeID(i)))
			e.Tensor = g.Tensors[t].Name
			e.File = program.FileOf(p.Model)
			return e
		}
	}
	return nil
}
