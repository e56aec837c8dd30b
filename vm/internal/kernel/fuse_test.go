package kernel

import (
	"fmt"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// TestFusedActivations: a node with a fused activation gives the same bits as the two nodes
// separately.
func TestFusedActivations(t *testing.T) {
	activations := []struct {
		op     string
		domain string
		attrs  []*graph.Attr
		bounds []float64 // inputs 1 and 2
	}{
		{op: "Relu"},
		{op: "Clip", bounds: []float64{-0.3, 0.7}},
		{op: "Clip", attrs: attrs(float1("min", 0), float1("max", 6))},
		{op: "Sigmoid"},
		{op: "Tanh"},
		{op: "HardSwish"},
		{op: "HardSigmoid", attrs: attrs(float1("alpha", 0.3))},
		{op: "Swish"},
		{op: "Gelu"},
		{op: "Gelu", attrs: attrs(text("approximate", "tanh"))},
		{op: "Gelu", domain: "com.microsoft"},
		{op: "QuickGelu", domain: "com.microsoft"},
	}
	taken := map[string]int{}
	cases := slices.Concat(nodeCases, gradientCases)
	for i := range cases {
		k := &cases[i]
		if l := Lookup("", k.op); l == nil || !l.Fuses {
			continue
		}
		for _, x := range []struct {
			d     graph.DType
			fixed bool // the weights do not change: other kernels may be chosen
		}{{graph.Float32, true}, {graph.Float16, true}, {graph.Float32, false}} {
			d := x.d
			if i >= len(nodeCases) && x.fixed {
				continue // a gradient's operands change from run to run
			}
			n, outs, err := k.node(k.in)
			if err != nil {
				t.Fatal(err)
			}
			in := make([]*Tensor, len(k.in))
			for i, v := range k.in {
				in[i] = store(v, d)
				in[i].Const = i > 0 && x.fixed
			}
			for _, a := range activations {
				then := &Invocation{Call: form.Call{Node: &graph.Node{Op: a.op, Domain: a.domain, Attrs: a.attrs}, Version: 24, Runtime: alone{}, In: []*Tensor{nil}}}
				for _, b := range a.bounds {
					x := store(scalar(b), d)
					x.Const = true
					then.In = append(then.In, x)
				}
				plain, err := k.run(n, in, outs, d, 1, alone{pack: true})
				if err != nil {
					t.Fatal(err)
				}
				then.In[0], then.Out = plain[0], plain[:1]
				inPlace(t, then)
				for _, pack := range []bool{true, false} {
					c := &Invocation{Call: form.Call{Node: n, Version: k.opset(), In: in, Runtime: alone{pack: pack}}, Then: Lookup(a.domain, a.op).Finish(then)}
					fused, err := k.call(c, outs, d, 2)
					if err != nil {
						t.Fatal(err)
					}
					if !c.Taken {
						then.In[0], then.Out = fused[0], fused[:1]
						inPlace(t, then)
					} else if x.fixed {
						taken[fmt.Sprint(k.op, " ", d)]++
					}
					if string(raw(fused[0])) != string(raw(plain[0])) {
						t.Errorf("case %d, %s, %v, then %s: other bits (fused: %v, packed: %v, weights fixed: %v)", i, k.op, d, a.op, c.Taken, pack, x.fixed)
					}
				}
			}
		}
	}
	// Each case runs packed and unpacked; for float16 only the three clamps fuse.
	for what, want := range map[string]int{"Conv float32": 144, "Gemm float32": 48, "MatMul float32": 48, "Conv float16": 36, "MatMul float16": 12, "Gemm float16": 12} {
		if taken[what] != want {
			t.Errorf("%s: %d fused, want %d", what, taken[what], want)
		}
	}
}

// inPlace runs an activation in place.
func inPlace(t *testing.T, c *Invocation) {
	t.Helper()
	f, err := Lookup(c.Node.Domain, c.Node.Op).Prepare(c)
	if err != nil {
		t.Fatal(err)
	}
	pool := work.New(1)
	defer pool.Close()
	pool.SetScratch(blank(graph.Float32, []int{c.SharedBytes/4 + 16}).At, blank(graph.Float32, []int{c.EachBytes/4 + 16}).At, c.EachBytes)
	if err := f(pool); err != nil {
		t.Fatal(err)
	}
}

// An activation whose bounds are known only at run time is not fused.
func TestBoundsThatAreNotKnown(t *testing.T) {
	c := &Invocation{Call: form.Call{Node: &graph.Node{Op: "Clip"}, Runtime: alone{}, In: []*Tensor{blank(graph.Float32, []int{4}), store(scalar(1), graph.Float32)}}}
	if finishClip(c) != nil {
		t.Error("fused")
	}
	c.In[1].Const = true
	if f := finishClip(c); f == nil || f.Low != 1 {
		t.Errorf("got %+v, want a clamp from 1 on", f)
	}
}
