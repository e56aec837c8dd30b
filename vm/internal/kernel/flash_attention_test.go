package kernel

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// flashCase is attention that keeps no scores.
type flashCase struct {
	name                           string
	batch, heads, groups           int
	queries, keys, size, valueSize int
	bias, keep                     *reference.Tensor
	fill                           float32
	safe                           int64
}

// upTo is 1 where the index of a key is at most that of the query plus a shift.
func upTo(queries, keys, shift int) *reference.Tensor {
	t := &reference.Tensor{Type: graph.Bool, Shape: []int{queries, keys}}
	for i := range queries {
		for j := range keys {
			seen := int64(0)
			if j <= i+shift {
				seen = 1
			}
			t.I = append(t.I, seen)
		}
	}
	return t
}

// asBias is v where a mask is 0, else 0.
func asBias(mask *reference.Tensor, v float64) *reference.Tensor {
	t := reference.Reals(mask.Shape)
	t.F = make([]float64, len(mask.I))
	for i, seen := range mask.I {
		if seen == 0 {
			t.F[i] = v
		}
	}
	return t
}

var allSeen = &reference.Tensor{Type: graph.Bool, Shape: []int{}, I: []int64{1}}

// flashCases have one block of queries and several, heads that share keys, biases for each query,
// for each key and for all, keys that no query of a block sees, and queries that see none.
var flashCases = []flashCase{
	{"small", 1, 1, 1, 3, 5, 7, 2, scalar(0), allSeen, 0, 0},
	{"bias for keys", 2, 2, 2, 90, 70, 16, 8, wave(2, 1, 1, 70), allSeen, 0, 0},
	{"shared keys, bias for all", 1, 4, 2, 300, 130, 12, 20, wave(1, 4, 300, 130), allSeen, 0, 0},
	{"many keys", 1, 1, 1, 70, 1500, 8, 8, wave(1500), allSeen, 0, 0},
	{"flags, bias for queries", 2, 2, 2, 40, 33, 8, 8, wave(40, 1), sometimes(40, 33), -1e38, 0},
	{"causal", 1, 2, 2, 200, 200, 9, 9, scalar(0), upTo(200, 200, 0), -3.4e38, 0},
	{"causal by a bias", 2, 1, 1, 70, 150, 9, 9, asBias(upTo(70, 150, 0), -3.4e38), allSeen, 0, 0},
	{"causal by an infinite bias", 2, 1, 1, 70, 150, 9, 9, asBias(upTo(70, 150, 1), math.Inf(-1)), allSeen, 0, 1},
	{"causal by a small bias", 2, 1, 1, 70, 150, 9, 9, asBias(upTo(70, 150, 0), -10000), allSeen, 0, 0},
	{"queries without keys", 1, 1, 1, 70, 80, 9, 9, scalar(0), upTo(70, 80, -5), -3.4e38, 0},
	{"queries without keys by an infinite bias", 1, 1, 1, 70, 80, 9, 9, asBias(upTo(70, 80, -5), math.Inf(-1)), allSeen, 0, 1},
	{"queries without keys by both", 2, 2, 2, 70, 80, 9, 9, asBias(upTo(70, 80, 3), -1e38), sometimes(2, 1, 1, 80), -1e38, 0},
	{"flags for queries", 1, 2, 1, 70, 80, 9, 9, scalar(1), sometimes(1, 2, 70, 1), -1, 0},
}

// TestFlashAttention: results and gradients are those of the plain evaluator, in each type and for
// each set of micro-kernels, and the same bits for any number of workers.
func TestFlashAttention(t *testing.T) {
	for _, c := range flashCases {
		for elem, tolerance := range map[graph.DType]float64{graph.Float32: 4e-6, graph.BFloat16: 1.2e-2, graph.Float16: 2e-3} {
			t.Run(fmt.Sprintf("%s/%v", c.name, elem), func(t *testing.T) { c.check(t, elem, tolerance) })
		}
	}
}

func (c *flashCase) check(t *testing.T, elem graph.DType, tolerance float64) {
	attrs := []*graph.Attr{float1("scale", 0.3), float1("fill", c.fill), whole1("safe", c.safe)}
	x := args(wave(c.batch, c.heads, c.queries, c.size), wave(c.batch, c.groups, c.size, c.keys), wave(c.batch, c.groups, c.keys, c.valueSize), c.bias, c.keep)
	types := []graph.DType{elem, elem, elem, graph.Float32, graph.Bool}
	out := c.both(t, graph.FlashAttention, attrs, x, types, []graph.DType{elem, graph.Float32}, tolerance)
	x = append(x, out[1], wave(c.batch, c.heads, c.queries, c.valueSize))
	c.both(t, graph.FlashAttentionGrad, attrs, x, append(types, graph.Float32, elem), []graph.DType{elem, elem, elem}, 2*tolerance)
}

// both runs the kernel and the evaluator on the same inputs, and returns what the evaluator gives.
func (c *flashCase) both(t *testing.T, op string, attrs []*graph.Attr, x []*reference.Tensor, types, outs []graph.DType, tolerance float64) []*reference.Tensor {
	t.Helper()
	k := nodeCase{op: graph.SwapDomain + "." + op, attrs: attrs, outputs: len(outs)}
	var in []*Tensor
	rounded := make([]*reference.Tensor, len(x))
	for i, r := range x {
		in = append(in, store(r, types[i]))
		rounded[i] = r
		if r.F != nil {
			get, _ := form.Reader(types[i])
			rounded[i] = reference.Reals(r.Shape)
			for j := range r.F {
				rounded[i].F = append(rounded[i].F, get(in[i].At, j))
			}
		}
	}
	n, want, err := k.node(rounded)
	if err != nil {
		t.Fatal(err)
	}
	var first []*Tensor
	for _, workers := range []int{1, 3} {
		call := &Invocation{Call: form.Call{Node: n, Version: 18, In: in, Runtime: alone{}}}
		for i, w := range want {
			call.Out = append(call.Out, blank(outs[i], w.Shape))
		}
		if err := prepareAndRun(call, Lookup(graph.SwapDomain, op), workers); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = call.Out
		}
		for i, o := range call.Out {
			if !bytes.Equal(raw(o), raw(first[i])) {
				t.Errorf("%s: output %d has other bits with %d workers", op, i, workers)
			}
		}
	}
	for i, w := range want {
		get, _ := form.Reader(outs[i])
		worst, most := 0.0, 0.1 // terms of up to 2 may cancel
		for j, v := range w.F {
			got := get(first[i].At, j)
			if d := math.Abs(got - v); d > worst || d != d && !(got != got && v != v) && !(math.IsInf(v, -1) && math.IsInf(got, -1)) {
				worst = d
			}
			if a := math.Abs(v); !math.IsInf(a, 0) && a < 1e30 {
				most = max(most, a)
			}
		}
		if !(worst <= tolerance*most) {
			t.Errorf("%s: output %d differs by %g of %g", op, i, worst, most)
		}
	}
	return want
}
