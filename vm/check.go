package vm

import (
	"bytes"
	"context"
	"hash/maphash"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Difference says how one output of a planned run differs from that of a run in
// which every tensor has a storage of its own and the nodes run in another
// order.
type Difference struct {
	Name        string
	Identical   bool // bit for bit
	MaxAbsError float64
}

// Check is what CheckRun found.
type Check struct {
	Outputs []Difference
	// Runs is how many runs were compared: up to the first that differs.
	Runs int
	// First is the first node of that run, in the planned order, whose result
	// differs though its inputs do not, with the tensor; nil if there is none.
	First error
}

// Identical reports whether all outputs are, bit for bit.
func (c *Check) Identical() bool {
	return !slices.ContainsFunc(c.Outputs, func(d Difference) bool { return !d.Identical })
}

// CheckRun runs the program twice: as it is planned, and with every tensor apart
// in another topological order. runs are the inputs of one run after the other,
// as for Session.Run; parameters and states go on from run to run on either side.
// A stray write that poison finds is an error. ctx ends the runs as in Session.Run.
func (p *Program) CheckRun(ctx context.Context, runs []map[string]Value, opt Options) (*Check, error) {
	seed := maphash.MakeSeed()
	var sums [2]map[string]uint64
	var sessions [2]*Session
	for k := range sessions {
		opt.Apart = k == 1
		s, err := p.NewSession(opt)
		if err != nil {
			return nil, err
		}
		defer s.Close()
		// Before poison gets at what dies at once.
		s.tape.after = slices.Insert(s.tape.after, 0, func(st *step, _ int) error {
			if st.call.Node.IsSwapIn() {
				return nil // what it brings may be on its way; its readers show what came
			}
			for _, t := range st.out {
				// What an activation was done with is not what its node makes:
				// the activation's output is compared. Constants may be gone.
				if t != nil && !t.Const && !st.call.Taken {
					sums[k][t.name] = maphash.Bytes(seed, bytesOf(t))
				}
			}
			return nil
		})
		sessions[k] = s
	}
	c := &Check{}
	for _, inputs := range runs {
		var outs [2]map[string]Value
		for k, s := range sessions {
			sums[k] = map[string]uint64{}
			var err error
			if outs[k], err = s.Run(ctx, inputs); err != nil {
				return nil, err
			}
		}
		c.Runs++
		c.Outputs = p.differences(outs)
		if !c.Identical() {
			c.First = p.firstDifference(sums, c.Runs)
			break
		}
	}
	return c, nil
}

// differences compares the outputs of two runs.
func (p *Program) differences(outs [2]map[string]Value) []Difference {
	var list []Difference
	for _, t := range p.Outputs() {
		a, b := outs[0][t.Name], outs[1][t.Name]
		d := Difference{Name: t.Name, Identical: a.String() == b.String() && bytes.Equal(a.Data, b.Data)}
		if !d.Identical {
			d.MaxAbsError = maxAbsError(a, b)
		}
		list = append(list, d)
	}
	return list
}

// maxAbsError is the largest difference of two elements at the same place;
// infinite where shapes differ or only one of them is a number.
func maxAbsError(a, b Value) float64 {
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

// firstDifference names the node whose result differs though what it reads does
// not.
func (p *Program) firstDifference(sums [2]map[string]uint64, run int) error {
	g := p.m.Graph
	for i, n := range g.Nodes {
		for _, t := range n.Outputs {
			if t < 0 {
				continue
			}
			planned, is := sums[0][g.Tensors[t].Name]
			if !is || planned == sums[1][g.Tensors[t].Name] {
				continue
			}
			e := graph.Errorf("run %d, step %d: makes other bits in its planned place than in one of its own", run, i).AtNode(g.Label(graph.NodeID(i)))
			e.Tensor = g.Tensors[t].Name
			e.File = fileOf(p.m)
			return e
		}
	}
	return nil
}
