package verify

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/randmodel"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
	"github.com/onnxmem/onnxmem/plan/verify/internal/core/coretest"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// parted makes a model of tensors in many parts: a Concat of some inputs, and nodes that may
// write over either of two tensors of its size, each of which others may read later.
func parted(seed uint64) *graph.Model {
	r := rand.New(rand.NewPCG(seed, 8))
	b := graph.NewBuilder("parted", 13)
	row := int64([]int{16, 16, 5}[r.IntN(3)])
	of := func(rows int64) graph.Type { return graph.TensorOf(graph.Float32, graph.Dim(rows), graph.Dim(row)) }
	var in []graph.TensorID
	total := int64(0)
	for k := range 4 + r.IntN(4) {
		rows := int64(1 + r.IntN(3))
		total += rows
		in = append(in, b.Input(fmt.Sprint("a", k), of(rows)))
	}
	add := func(op, name string, attrs []*graph.Attr, in ...graph.TensorID) graph.TensorID {
		return b.Add(&graph.Node{Op: op, Name: "make " + name, Attrs: attrs, Inputs: in}, name)[0]
	}
	list := []graph.TensorID{add("Concat", "joined", []*graph.Attr{{Name: "axis", Type: graph.AttrInt}}, in...)}
	made := 0
	for range 3 + r.IntN(4) {
		made++
		name := fmt.Sprint("t", made)
		x, y := list[r.IntN(len(list))], list[r.IntN(len(list))]
		switch r.IntN(5) {
		case 0:
			list = append(list, add("Relu", name, nil, x))
		case 1:
			from := r.Int64N(total)
			to := from + 1 + r.Int64N(total-from)
			part := add("Slice", name, nil, x, b.Ints(name+".from", []int64{1}, []int64{from}), b.Ints(name+".to", []int64{1}, []int64{to}))
			add("Neg", name+".neg", nil, part)
		default:
			list = append(list, add("Add", name, nil, x, y))
		}
	}
	m, err := b.Model()
	if err != nil {
		panic(err)
	}
	for _, t := range list {
		if len(m.Graph.Tensors[t].Readers) == 0 && r.IntN(3) > 0 {
			b.Declare(t, of(total))
			b.Output(t)
		}
	}
	if len(m.Graph.Outputs) == 0 {
		b.Declare(list[len(list)-1], of(total))
		b.Output(list[len(list)-1])
	}
	if m, err = b.Model(); err != nil {
		panic(err)
	}
	return m
}

// relaxedScope is the relaxed scope of a model, nil if it has too many parts.
func relaxedScope(t *testing.T, m *graph.Model, align int64) *scope {
	t.Helper()
	if _, err := ops.Infer(m, ops.Options{}); err != nil {
		t.Fatal(err)
	}
	v := &verifier{Subject: &subject.Subject{Plan: &plan.Plan{Alignment: align, Sharing: plan.Sharing{Views: true, Inplace: true, Aliases: true}}}}
	s := v.newScope(m.Graph, mainGraph, "")
	s.share()
	return s.relaxed()
}

// TestRelaxedBoundsAreExact compares the bounds of single nodes, where nodes only move bytes,
// with the least load over all states and all choices of in-place results, part by part.
func TestRelaxedBoundsAreExact(t *testing.T) {
	seeds := uint64(600)
	if testing.Short() {
		seeds = 100
	}
	nodes, many, exact := 0, 0, 0
	for seed := range seeds {
		m := parted(seed)
		if seed%3 == 0 {
			m = randmodel.Joins(seed, 3+int(seed%6))
		}
		align := []int64{64, 64, 4}[seed/3%3]
		s := relaxedScope(t, m, align)
		if len(s.g.Nodes) > 11 {
			continue
		}
		b, q := core.NewBounds(&s.Problem, core.MaxWork), coretest.NewStates(&s.Problem)
		for v := range s.g.Nodes {
			want := q.Least(v, b.Idle, func(int) bool { return true })
			nodes++
			if len(q.Pairs[v]) >= 10 {
				many++
			}
			got := b.AtNode(int32(v), math.MaxInt64)
			if got.Bytes > want || b.Exact(int32(v)) && got.Bytes < want || got.Unknown {
				t.Fatalf("seed %d: %s needs %d bytes or more (unknown: %t), expected %d", seed, s.g.Label(graph.NodeID(v)), got.Bytes, got.Unknown, want)
			}
			if b.Exact(int32(v)) {
				exact++
			}
		}
	}
	t.Logf("%d nodes, %d with many pairs, %d whose bound is exact", nodes, many, exact)
	if many < nodes/40 || exact < nodes*9/10 {
		t.Errorf("%d of %d nodes have many pairs, and %d exact bounds: too few are tested", many, nodes, exact)
	}
}
