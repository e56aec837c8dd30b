package gpu

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

func init() {
	for i := range flashCases {
		cases = append(cases, flashCases[i].nodes()...)
	}
}

// flashCase is attention that keeps no scores.
type flashCase struct {
	types                                         []graph.DType
	heads, groups, queries, keys, size, valueSize int
	bias, keep                                    *reference.Tensor
	fill                                          float32
	safe                                          int64
}

// flashCases have heads of odd sizes, and of some that are fetched in fours; one block of queries
// and several; biases for all and for keys, masks of both kinds, and queries without a key.
var flashCases = []flashCase{
	{halfAndSingle, 1, 1, 3, 5, 7, 2, scalar(0.5), seenUpTo(1, 1, 5), 0, 0},
	{singleAndBFloat16, 4, 2, 130, 70, 12, 20, noise(2, 4, 130, 70), seenUpTo(1, 1, 5), 0, 0},
	{halfAndSingle, 2, 2, 64, 192, 64, 64, scalar(0.5), seenUpTo(1, 1, 5), 0, 0},
	{inSingle, 2, 2, 64, 192, 64, 64, noise(2, 1, 1, 192), seenUpTo(1, 1, 5), 0, 0},
	{[]graph.DType{graph.Float32, graph.Float16}, 2, 2, 150, 150, 16, 16, scalar(0), seenUpTo(150, 150, 0), -3.4e38, 0},
	{singleAndBFloat16, 2, 1, 70, 150, 80, 131, asAdded(seenUpTo(70, 150, 70), math.Inf(-1)), seenUpTo(1, 1, 5), 0, 1},
	{inSingle, 1, 1, 70, 80, 9, 9, asAdded(seenUpTo(70, 80, -5), math.Inf(-1)), seenUpTo(1, 1, 5), 0, 1},
	{inSingle, 1, 1, 70, 80, 130, 9, scalar(0), seenUpTo(70, 80, -5), -3.4e38, 0},
	{inSingle, 2, 2, 70, 80, 9, 9, asAdded(seenUpTo(70, 80, 3), -1e38), flags(2, 1, 1, 80), -1e38, 0},
	{inSingle, 2, 1, 70, 80, 8, 8, noise(70, 1), flags(2, 70, 1), -1, 0},
}

var singleAndBFloat16 = []graph.DType{graph.Float32, graph.BFloat16}

// seenUpTo is true where the index of a key is at most that of the query plus a shift.
func seenUpTo(queries, keys, shift int) *reference.Tensor {
	t := &reference.Tensor{Type: graph.Bool, Shape: []int{queries, keys}}
	for i := range queries * keys {
		seen := int64(0)
		if i%keys <= i/keys+shift {
			seen = 1
		}
		t.I = append(t.I, seen)
	}
	return t
}

// asAdded is v where a mask is 0, else 0.
func asAdded(mask *reference.Tensor, v float64) *reference.Tensor {
	list := make([]float64, len(mask.I))
	for i, seen := range mask.I {
		if seen == 0 {
			list[i] = v
		}
	}
	return reference.Reals(mask.Shape, list...)
}

// nodes are the node, in a batch of two, and its gradient.
func (c *flashCase) nodes() []nodeCase {
	const batch = 2
	a := attrs(real("scale", 0.3), real("fill", c.fill), whole("safe", c.safe))
	in := args(noise(batch, c.heads, c.queries, c.size), noise(batch, c.groups, c.size, c.keys), noise(batch, c.groups, c.keys, c.valueSize), c.bias, c.keep)
	op := graph.SwapDomain + "." + graph.FlashAttention
	forward := nodeCase{op: op, attrs: a, in: in, outputs: 2, tolerance: 4e-6, types: c.types, wide: []int{3}, wideOut: []int{1}}
	grad := nodeCase{op: op + "Grad", attrs: a, outputs: 3, tolerance: 1e-5, types: c.types, wide: []int{3, 5}}
	grad.in = append(slices.Clone(in), evaluated(&forward)[1], noise(batch, c.heads, c.queries, c.valueSize))
	return []nodeCase{forward, grad}
}

// evaluated are the outputs of a case of ours by the evaluator.
func evaluated(c *nodeCase) (out []*reference.Tensor) {
	g, feeds := &graph.Graph{}, map[string]*reference.Tensor{}
	n := &graph.Node{Op: c.op[len(graph.SwapDomain)+1:], Domain: graph.SwapDomain, Attrs: c.attrs}
	for i, t := range c.in {
		name := fmt.Sprintf("x%d", i)
		feeds[name] = t
		n.Inputs = append(n.Inputs, g.NewTensor(name))
	}
	for i := range c.outputs {
		n.Outputs = append(n.Outputs, g.NewTensor(fmt.Sprintf("y%d", i)))
	}
	g.Nodes, g.Outputs = []*graph.Node{n}, n.Outputs
	got, err := reference.Eval(&graph.Model{Graph: g, Opsets: []graph.Opset{{Version: 18}}}, feeds)
	if err != nil {
		panic(err)
	}
	for i := range n.Outputs {
		out = append(out, got[fmt.Sprintf("y%d", i)])
	}
	return out
}

// TestFlashAttention: with TF32, operands of attention and of its gradient have 10 bits of
// fraction, and the node says so; without tensor cores, 16 bits are computed in float32, too.
func TestFlashAttention(t *testing.T) {
	for _, by := range []string{"TF32", "plain"} {
		t.Run(by, func(t *testing.T) {
			b := newBench(t)
			b.kernels.TF32, b.kernels.plain = by == "TF32", by == "plain"
			var list []*prepared
			for _, f := range flashCases {
				for _, c := range f.nodes() {
					d := c.types[len(c.types)-1]
					if by == "TF32" {
						d, c.tolerance = graph.Float32, 8e-3
					} else if d == graph.Float32 {
						continue
					}
					p := b.prepare(&c, d)
					if p == nil {
						continue
					}
					list = append(list, p)
					if tf32 := p.n.Rounding == form.TF32Rounding; tf32 != (by == "TF32") {
						t.Errorf("%s: rounds its operands to TF32: %t", c.op, tf32)
					}
				}
			}
			b.must(b.kernels.Ready(func(int64) error { return nil }))
			for i, p := range list {
				t.Run(fmt.Sprintf("%d-%s-%v", i, p.c.op, p.d), func(t *testing.T) { b.check(t, p) })
			}
			b.t = t
		})
	}
}
