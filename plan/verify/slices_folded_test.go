package verify_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// A model of which constants are folded can run in slices, too.
func TestSlicedAndFolded(t *testing.T) {
	x := text{main: `
		in x float32[128,128]
		init w float32[1024,128] = ...
		init v float32[128,1024] = ...
		r = EyeLike(x)
		a = Transpose(w)
		h = MatMul(r, a)
		g = Relu(h)
		c = Transpose(v)
		m = MatMul(g, c)
		y = Add(r, m)
		s = Shape(x)
		z = Reshape(y, s)
		e = EyeLike(z)
		out e
	`}
	for _, fold := range []passes.Fold{passes.FoldExact, passes.FoldAny} {
		source, file, p := planReal(t, x, passes.Options{Fold: fold, Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: 60}})
		if p.Folded == nil || p.Slices == nil {
			t.Fatalf("folded: %t, sliced: %t", p.Folded != nil, p.Slices != nil)
		}
		r, err := verify.Plan(parse(t, file), p, verify.Options{Source: parse(t, source)})
		if err != nil || !r.Valid || slices.Contains(r.Claimed, "slices") {
			t.Errorf("%v\n%v", err, r)
		}
	}
}

// Passes behind the folding copy the graph, and slices leave out nodes that no output needs.
// Constants that the plan lists as folded stay, in the main graph and in bodies.
func TestFoldedInCopiesOfGraphs(t *testing.T) {
	const unread = `
		s = Mul(c, d)
		t = MatMul(x, s)
	`
	model := func(more string) text {
		return text{
			main: `
				in x float32[64,32]
				in p bool[]
				init w float32[32,256] = ...
				init c float32[32,32] = ...
				init d float32[32,32] = ...
				m = MatMul(x, w)
				r = Relu(m)
				n = Sigmoid(r)
				l = Add(n, r)
				y = ReduceMean(l) keepdims=0
				q = If(p)
				out y
			` + more,
			bodies: map[string]string{
				"q.then_branch": "init e float32[32,32] = ...\nf = Neg(e)\ng = MatMul(x, f)\nh = If(p)\nout h",
				"q.else_branch": "i = Relu(x)\nout i",
				"h.then_branch": "init o float32[32,32] = ...\nk = Neg(o)\nz = MatMul(g, k)\nout z",
				"h.else_branch": "z = Relu(g)\nout z",
			},
		}
	}
	for _, c := range []struct {
		name string
		more string
		opt  passes.Options
		has  func(p *plan.Plan) bool
	}{
		{"slices", "out q", passes.Options{Slices: passes.SlicesExact, ExtraPercent: 1000}, func(p *plan.Plan) bool { return p.Slices != nil }},
		{"slices, and nothing reads it", unread, passes.Options{Slices: passes.SlicesExact, ExtraPercent: 1000}, func(p *plan.Plan) bool { return p.Slices != nil }},
		{"a limit", "u = Mul(m, y)\ne = ReduceMax(u) keepdims=0\nout e\nout q", passes.Options{Limit: &passes.Limit{Percent: 80}}, func(p *plan.Plan) bool { return p.Summary.RecomputedNodes > 0 }},
	} {
		for name, fold := range passes.Folds {
			if fold == passes.FoldOff {
				continue
			}
			c.opt.Fold = fold
			source, file, p := planReal(t, model(c.more), c.opt)
			if p.Folded == nil || len(p.Folded.Tensors) < 2 || !c.has(p) {
				t.Fatalf("%s, fold %s: folded: %+v, without what the case is about: %+v", c.name, name, p.Folded, p.Summary)
			}
			if r, err := verify.Plan(parse(t, file), p, verify.Options{Source: parse(t, source)}); err != nil || !r.Valid {
				t.Errorf("%s, fold %s: %v\n%v", c.name, name, err, r)
			}
		}
	}
}

// TestFoldedTransposeBesideSlices: a product reads what a Transpose reads, so the nodes before that
// are needed even though the Transpose is not.
func TestFoldedTransposeBesideSlices(t *testing.T) {
	x := text{main: `
		in x float32[128,128]
		in b float32[1,6]
		init w float32[128,1024] = ...
		init v float32[1024,128] = ...
		init e float32[16,1] = ...
		init f float32[1,16] = ...
		h = MatMul(x, w)
		g = Relu(h)
		m = MatMul(g, v)
		out m
		c = Concat(b, b, b) axis=1
		d = Transpose(c) perm=[1, 0]
		y = Gemm(d, e, f) transB=1
		out y
	`}
	source, file, p := planReal(t, x, passes.Options{Fold: passes.FoldAny, Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: 60}})
	if p.Folded == nil || len(p.Folded.Products) != 1 || p.Slices == nil {
		t.Fatalf("folded: %+v, sliced: %t", p.Folded, p.Slices != nil)
	}
	r, err := verify.Plan(parse(t, file), p, verify.Options{Source: parse(t, source)})
	if err != nil || !r.Valid || slices.Contains(r.Claimed, "slices") {
		t.Errorf("%v\n%v", err, r)
	}
	p.Folded.Nodes++
	r, err = verify.Plan(parse(t, file), p, verify.Options{Source: parse(t, source)})
	if err != nil || r.Valid {
		t.Errorf("one node more: %v\n%v", err, r)
	}
}

// TestFoldedInABranchThatNeverRuns: a product there has no type, and stays as it is.
func TestFoldedInABranchThatNeverRuns(t *testing.T) {
	x := text{main: `
		in x float32[2,6]
		in z float32[2,64]
		init never bool[] = 0
		init w float32[6,15] = ...
		init v float32[15,6] = ...
		y = If(never) then_branch=graph {
			a = Transpose(v) perm=[1, 0]
			b = MatMul(x, a)
			out b
		} else_branch=graph {
			c = MatMul(x, w)
			out c
		}
		k = Neg(y)
		out k
		out z
	`}
	for _, opt := range []passes.Options{
		{Fold: passes.FoldAny},
		{Fold: passes.FoldAny, Pools: []passes.Pool{{Name: "fast", Capacity: 8192}, {Name: "slow", Capacity: 8192}}},
	} {
		found, err := passes.Optimize(t.Context(), x.build(t), opt)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range found.GivenUp {
			t.Errorf("%+v", x)
		}
	}
}

// TestFoldedWeightsOfParts: a convolution whose result is split is not made in parts where its
// weights are a folded constant, which the plan lists.
func TestFoldedWeightsOfParts(t *testing.T) {
	x := text{main: `
		in x1 float32[1,2,8,10]
		in x2 float32[1,5,12]
		in w49 float32[11,1,4]
		in w55 float32[1,4,1]
		in t118 float32[1,8,1]
		in t103 float32[1,4,2]
		in t82 float32[1,1,12]
		in t8 float32[1,2,12]
		in t9 float32[1,3,12]
		init c12 float32[3,4,8] = ...
		init c17 int64[3] = [1, 1, 6]
		init c35 float32[] = 0.03
		init c36 uint8[] = 128
		init c41 int64[3] = 4
		init c78 float32[4] = [1, 1, 3, 2]
		t11 = Concat(t8, t8) axis=1
		t14 = Transpose(c12) perm=[2, 1, 0]
		t16 = Conv(t11, t14) kernel_shape=[3] auto_pad="SAME_UPPER"
		t19, t20, t21 = Split(t16, c17) axis=1
		t38 = QuantizeLinear(t19, c35, c36)
		t40 = DequantizeLinear(t38, c35, c36)
		t43, t44, t45 = Split(t40, c41) axis=2
		t51 = Conv(t44, w49) kernel_shape=[4] pads=[0, 0] strides=[2] dilations=[1]
		t80 = Resize(x1, _, c78) mode="nearest" coordinate_transformation_mode="asymmetric" nearest_mode="ceil"
		t84 = Concat(t82, t11, t9, t40) axis=1
		out t80
		out t84
	`, opset: 13}
	for _, percent := range []float64{95, 90, 85} {
		found, err := passes.Optimize(t.Context(), x.build(t), passes.Options{Slices: passes.SlicesAny, Limit: &passes.Limit{Percent: percent}, Align: 16, Schedule: "bfs"})
		if limit := new(passes.LimitError); errors.As(err, &limit) {
			continue // there is none of so many bytes
		}
		if err != nil {
			t.Fatalf("%g %%: %v", percent, err)
		}
		for _, x := range found.GivenUp {
			t.Errorf("%g %%: %+v", percent, x)
		}
	}
}
