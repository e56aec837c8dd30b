// Package randmodel makes small random models for tests.
package randmodel

import (
	"fmt"
	"math/rand/v2"

	"github.com/onnxmem/onnxmem/graph"
)

// Joins makes a model of some nodes that join tensors and cut them apart (Concat, Split,
// Slice, Gather), with views, elementwise operators, which may run in place, and pools,
// which may not. Equal arguments make equal models.
//
// Tensors have the shape [1, c, row]. A row has 16 floats, which is the alignment of
// plans, or in one of four models 3, so that few parts begin at a multiple of it.
func Joins(seed uint64, nodes int) *graph.Model {
	r := rand.New(rand.NewPCG(seed, 1))
	j := &joins{r: r, b: graph.NewBuilder("joins", 9), row: 16}
	if r.IntN(4) == 0 {
		j.row = 3
	}
	for range 1 + r.IntN(2) {
		j.list = append(j.list, tensor{j.b.Input("x", j.of(2*int64(1+r.IntN(3)))), 0})
		j.list[len(j.list)-1].rows = j.lastRows
	}
	for range nodes {
		j.node()
	}
	// What nobody reads is an output, and sometimes other tensors are, too.
	m, err := j.b.Model()
	if err != nil {
		panic(err)
	}
	for _, t := range j.list {
		x := m.Graph.Tensors[t.id]
		if len(x.Readers) == 0 && r.IntN(8) > 0 || x.Maker >= 0 && r.IntN(12) == 0 {
			j.b.Declare(t.id, j.of(t.rows))
			j.b.Output(t.id)
		}
	}
	if len(m.Graph.Outputs) == 0 {
		last := j.list[len(j.list)-1]
		j.b.Declare(last.id, j.of(last.rows))
		j.b.Output(last.id)
	}
	if m, err = j.b.Model(); err != nil {
		panic(err)
	}
	return m
}

// tensor is a tensor of the model and the length of its axis 1.
type tensor struct {
	id   graph.TensorID
	rows int64
}

type joins struct {
	r        *rand.Rand
	b        *graph.Builder
	row      int64
	list     []tensor
	count    int
	lastRows int64
}

func (j *joins) of(rows int64) graph.Type {
	j.lastRows = rows
	return graph.TensorOf(graph.Float32, 1, graph.Dim(rows), graph.Dim(j.row))
}

// pick draws a tensor, more often one of the last.
func (j *joins) pick() tensor {
	n := len(j.list)
	if j.r.IntN(2) == 0 && n > 3 {
		return j.list[n-1-j.r.IntN(3)]
	}
	return j.list[j.r.IntN(n)]
}

func (j *joins) add(op string, attrs []*graph.Attr, inputs []graph.TensorID, rows ...int64) {
	j.count++
	var names []string
	for k := range rows {
		names = append(names, fmt.Sprintf("%s%d_%d", op, j.count, k))
	}
	out := j.b.Add(&graph.Node{Op: op, Name: fmt.Sprintf("n%d", j.count), Attrs: attrs, Inputs: inputs}, names...)
	for k, n := range rows {
		j.list = append(j.list, tensor{out[k], n})
	}
}

func integer(name string, v int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInt, Int: v}
}

func integers(name string, v ...int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInts, Ints: v}
}

// maxRows keeps tensors small.
const maxRows = 64

func (j *joins) node() {
	x := j.pick()
	one := []graph.TensorID{x.id}
	switch j.r.IntN(12) {
	case 0, 1, 2, 3:
		ids, rows := []graph.TensorID{x.id}, x.rows
		for range 1 + j.r.IntN(3) {
			if y := j.pick(); rows+y.rows <= maxRows {
				ids, rows = append(ids, y.id), rows+y.rows
			}
		}
		j.add("Concat", []*graph.Attr{integer("axis", 1)}, ids, rows)
	case 4, 5:
		if x.rows < 2 {
			j.add("Relu", nil, one, x.rows)
			return
		}
		first := 1 + j.r.Int64N(x.rows-1)
		parts := []int64{first, x.rows - first}
		if rest := parts[1]; rest > 1 && j.r.IntN(2) == 0 {
			parts = []int64{first, 1, rest - 1}
		}
		j.add("Split", []*graph.Attr{integer("axis", 1), integers("split", parts...)}, one, parts...)
	case 6:
		from := j.r.Int64N(x.rows)
		to := from + 1 + j.r.Int64N(x.rows-from)
		j.add("Slice", []*graph.Attr{integers("axes", 1), integers("starts", from), integers("ends", to)}, one, to-from)
	case 7:
		index := j.b.Ints("index", []int64{1}, []int64{j.r.Int64N(x.rows)})
		j.add("Gather", []*graph.Attr{integer("axis", 1)}, []graph.TensorID{x.id, index}, 1)
	case 8:
		j.add("Identity", nil, one, x.rows)
	case 9:
		for _, y := range j.list {
			if y.rows == x.rows && y.id != x.id && j.r.IntN(2) == 0 {
				j.add("Add", nil, []graph.TensorID{x.id, y.id}, x.rows)
				return
			}
		}
		j.add("Neg", nil, one, x.rows)
	case 10:
		j.add("AveragePool", []*graph.Attr{integers("kernel_shape", 3), integers("pads", 1, 1)}, one, x.rows)
	default:
		j.add("Relu", nil, one, x.rows)
	}
}
