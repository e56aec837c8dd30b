package passes_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
)

// TestPrecision: which nodes of small graphs compute in 16 bits, and why others do not.
func TestPrecision(t *testing.T) {
	for _, c := range []struct {
		name, graph string
		elem        graph.DType
		keep        string
		half        string // tensors of the given graph that are in 16 bits, and casts to float32 of none
		kept        string // tensors that are float32, with a part of the reason
	}{
		{
			name: "a product, its bias and an activation", elem: graph.BFloat16,
			graph: "opset 22\nin x float32[2,8]\ninit w float32[8,4] = ...\ninit b float32[4] = ...\nm = MatMul(x, w)\ns = Add(m, b)\nr = Relu(s)\ny = MatMul(r, v)\ninit v float32[4,4] = ...\nout y",
			half:  "b.bfloat16 m r s v.bfloat16 w.bfloat16 x.bfloat16 y.bfloat16",
		},
		{
			name: "a vector that is no bias is wider", elem: graph.BFloat16,
			graph: "opset 22\nin x float32[2,4]\ninit w float32[4,4] = ...\ninit b float32[4] = ...\nm = MatMul(x, w)\ns = Mul(m, b)\nout s",
			half:  "m w.bfloat16 x.bfloat16", kept: "s=is float32",
		},
		{
			name: "a softmax, and a number of one element", elem: graph.Float16,
			graph: "opset 17\nin x float32[2,4]\ninit w float32[4,4] = ...\ninit k float32[] = 0.5\nm = MatMul(x, w)\ns = Mul(m, k)\np = Softmax(s)\ny = MatMul(p, w)\nout y",
			half:  "k.float16 m p.float16 s w.float16 x.float16 y.float16", kept: "p=Softmax computes in float32",
		},
		{
			name: "a number that float16 cannot hold", elem: graph.Float16,
			graph: "opset 17\nin x float32[2,4]\nin c bool[2,4]\ninit w float32[4,4] = ...\ninit k float32[] = -3.4e38\nm = MatMul(x, w)\ns = Where(c, k, m)\nout s",
			half:  "m w.float16 x.float16", kept: "s=float16 cannot hold k",
		},
		{
			name: "a layer normalization that is spelled out", elem: graph.Float16,
			graph: "opset 17\nin x float32[2,4]\ninit w float32[4,4] = ...\ninit two float32[] = 2.0\ninit e float32[] = 0.00001\nm = MatMul(x, w)\nu = ReduceMean(m) axes=[-1]\nd = Sub(m, u)\nq = Pow(d, two)\nv = ReduceMean(q) axes=[-1]\na = Add(v, e)\nr = Sqrt(a)\nn = Div(d, r)\nout n",
			half:  "m w.float16 x.float16",
			kept:  "a=LayerNormalization d=LayerNormalization n=LayerNormalization q=LayerNormalization r=LayerNormalization u=LayerNormalization v=LayerNormalization",
		},
		{
			name: "statistics stay float32, and what --keep names", elem: graph.BFloat16, keep: "^second$",
			graph: "opset 22\nin x float32[1,2,4,4]\ninit w float32[2,2,1,1] = ...\ninit s float32[2] = ...\nc = Conv(x, w) #first\nb = BatchNormalization(c, s, s, s, s)\ny = Conv(b, w) #second\nout y",
			half:  "b c w.bfloat16 x.bfloat16", kept: "y=--keep matches it",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := graph.Parse("m", c.graph)
			if err != nil {
				t.Fatal(err)
			}
			opt := passes.Options{Precision: &passes.Precision{Type: c.elem}, Fold: passes.FoldOff, Disable: []string{"fold"}}
			if c.keep != "" {
				opt.Precision.Keep = regexp.MustCompile(c.keep)
			}
			r, err := passes.Optimize(context.Background(), m, opt)
			if err != nil {
				t.Fatal(err)
			}
			var half []string
			for _, x := range r.Model.Graph.Tensors {
				if x.Type.Elem == c.elem {
					half = append(half, x.Name)
				}
			}
			slices.Sort(half)
			if got := strings.Join(half, " "); got != c.half {
				t.Errorf("16 bits: got %s, want %s", got, c.half)
			}
			want := strings.Fields(c.kept)
			if c.kept != "" && !strings.Contains(c.name, "layer") {
				want = []string{c.kept}
			}
			p := r.Plan.Precision
			if len(p.Kept) != len(want) {
				t.Fatalf("kept: got %v, want %v", p.Kept, want)
			}
			for i, k := range p.Kept {
				name, why, _ := strings.Cut(want[i], "=")
				if k.Tensor != name || !strings.Contains(k.Why, why) {
					t.Errorf("kept: got %v, want %s: %s", k, name, why)
				}
			}
			if slices.ContainsFunc(p.Casts, func(x plan.PrecisionCast) bool { return x.Tensor == x.Of }) {
				t.Errorf("casts: %v", p.Casts)
			}
		})
	}
}

// TestPrecisionOfPairs: two nodes that spell a Swish compute in float32 in a step, where its gradient
// would round many times, and in 16 bits in a model for inference, where that halves the buffer between.
func TestPrecisionOfPairs(t *testing.T) {
	for _, train := range []*autodiff.Options{nil, {Loss: "mse"}} {
		m, err := graph.Parse("m", "opset 22\nin x float32[2,8]\ninit w float32[8,8] = ...\nm = MatMul(x, w)\ns = Sigmoid(m)\na = Mul(m, s)\ny = MatMul(a, w)\nout y")
		if err != nil {
			t.Fatal(err)
		}
		r, err := passes.Optimize(context.Background(), m, passes.Options{Precision: &passes.Precision{Type: graph.BFloat16}, Train: train})
		if err != nil {
			t.Fatal(err)
		}
		full := slices.ContainsFunc(r.Plan.Precision.Kept, func(k plan.PrecisionKept) bool { return k.Tensor == "s" && k.Why == "Swish computes in float32" })
		if full != (train != nil) {
			t.Errorf("step: %v; the Swish computes in float32: %v", train != nil, full)
		}
	}
}
