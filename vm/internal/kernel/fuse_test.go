package kernel

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// activation is a node that another node's kernel may compute.
type activation struct {
	op     string
	domain string
	attrs  []*graph.Attr
	bounds []float64 // inputs 1 and 2
}

// activationCases are the nodes of nodeCases that kernels may apply, and Clip's.
func activationCases() []activation {
	list := []activation{
		{op: "Clip", bounds: []float64{-0.3, 0.7}},
		{op: "Clip", attrs: attrs(float1("min", 0), float1("max", 6))},
	}
	for i := range nodeCases {
		k := &nodeCases[i]
		domain, op := "", k.op
		if i := strings.LastIndex(op, "."); i >= 0 {
			domain, op = op[:i], op[i+1:]
		}
		if r := Lookup(domain, op); r != nil && r.Finish != nil && op != "Clip" {
			list = append(list, activation{op: op, domain: domain, attrs: k.attrs})
		}
	}
	return list
}

// TestActivationsHaveCases: every operator with the column Activation is among activationCases.
func TestActivationsHaveCases(t *testing.T) {
	list := activationCases()
	for _, domain := range ops.Domains() {
		for _, op := range ops.Names(domain) {
			if ops.Lookup(domain, op).Activation && !slices.ContainsFunc(list, func(a activation) bool { return a.op == op && a.domain == domain }) {
				t.Errorf("%s %s has the column Activation: expected Finish in its row here, and a case in cases_test.go", domain, op)
			}
		}
	}
}

// TestFusedActivations: a node with a fused activation gives the same bits as the two nodes
// separately.
func TestFusedActivations(t *testing.T) {
	activations, clamps := activationCases(), 0
	for _, a := range activations {
		if a.op == "Relu" || a.op == "Clip" {
			clamps++
		}
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
	// Each case runs packed and unpacked; for float16 only clamps fuse.
	for op, cases := range map[string]int{"Conv": 6, "Gemm": 2, "MatMul": 2} {
		for d, applied := range map[graph.DType]int{graph.Float32: len(activations), graph.Float16: clamps} {
			if got, want := taken[fmt.Sprint(op, " ", d)], 2*cases*applied; got != want {
				t.Errorf("%s %v: %d fused, want %d", op, d, got, want)
			}
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
