package autodiff

import (
	"math"
	"regexp"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/ops"
)

// TestFusedGradients: gradients as calls of functions, and with these functions inlined
// again, have the same bits as plain gradients, in all cases.
func TestFusedGradients(t *testing.T) {
	fused := map[ruleKey]bool{}
	for _, c := range allRuleCases() {
		if rule := LookupRule(c.domain, c.op); rule == nil || !rule.Fused || c.zero {
			continue
		}
		opset := int64(18)
		if c.opsets != nil {
			opset = c.opsets[len(c.opsets)-1]
		}
		t.Run(c.op+"/"+c.name, func(t *testing.T) {
			opt := Options{Loss: "none:objective", Trainable: regexp.MustCompile(`^p\d+$`), KeepGradients: true, FreezeStatistics: c.freeze}
			b := c.model(t, opset)
			plain := train(t, b.m, opt)
			opt.FusedGradients = FuseAll
			step := train(t, b.m, opt)
			inlined, err := graph.Inline(step.Model)
			if err != nil {
				t.Fatal(err)
			}
			if len(step.Model.Functions) > 0 {
				fused[ruleKey{c.domain, c.op}] = true
			}
			feeds, names := feedsOf(t, plain, b.feeds), gradientsOf(plain)
			want, err := reference.Eval(plain.Model, feeds, names...)
			if err != nil {
				t.Fatal(err)
			}
			for what, m := range map[string]*graph.Model{"functions": step.Model, "inlined": inlined} {
				got, err := reference.Eval(m, feeds, names...)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				for _, name := range names {
					if !slices.Equal(got[name].F, want[name].F) {
						t.Errorf("%s: %s is %v, expected %v", what, name, got[name].F, want[name].F)
					}
				}
				if _, err := ops.Infer(m, ops.Options{}); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
	for k, r := range rules {
		if r.Fused && !fused[k] {
			t.Errorf("%s %s: no case calls a function", k.domain, k.op)
		}
	}
}

// TestFusedFunctions: two activations of one kind share a function, and the shapes of its
// outputs are declared.
func TestFusedFunctions(t *testing.T) {
	b := newBuilder("fused", 20)
	x := b.input("x", b.value(operand{shape: []int{2, 3}, elem: graph.Float32}))
	for _, name := range []string{"w1", "w2", "w3"} {
		w := b.initializer(name, b.value(operand{shape: []int{2, 3}, elem: graph.Float32}))
		x = b.op("y_"+name, "Gelu", nil, b.op("z_"+name, "Mul", nil, x, w))
	}
	b.finish(b.op("objective", "ReduceSum", attrs{"keepdims": 0}, x))
	step := train(t, b.m, Options{Loss: "none:objective", FusedGradients: FuseAll})
	calls := 0
	for _, n := range step.Model.Graph.Nodes {
		if n.Domain != fusedDomain {
			continue
		}
		calls++
		if n.Op != "GeluGrad" || len(n.Inputs) != 3 || n.Inputs[1] != graph.None {
			t.Errorf("%s reads %v: expected the input and the output's gradient alone", n.OpName(), n.Inputs)
		}
		if wrt := n.Attr("wrt"); wrt == nil || !slices.Equal(wrt.Ints, []int64{0}) {
			t.Errorf("%s: wrt is %v, expected the input", n.Name, wrt)
		}
		if d := step.Model.Graph.Tensors[n.Outputs[0]].Declared; d == nil || d.Type.String() != "float32[2,3]" {
			t.Errorf("%s: its output is declared as %v", n.Name, d)
		}
	}
	if f := step.Model.Functions; calls != 3 || len(f) != 1 || f[0].Name != "GeluGrad" || f[0].Domain != fusedDomain {
		t.Errorf("%d calls, %d functions: expected three of GeluGrad", calls, len(f))
	}
	if graph.FindOpset(step.Model.Opsets, fusedDomain) != 1 {
		t.Error("the domain is not imported")
	}
}

// TestConvWeightGrad: the gradients of the weights of all kinds of convolutions are single
// nodes, and the same by the operator, by its function, by the nodes of the function, and by
// standard operators.
func TestConvWeightGrad(t *testing.T) {
	for _, c := range convCases {
		if c.op != "Conv" && c.op != "ConvTranspose" {
			continue // convCases are those of autodiff/conv.go
		}
		opset := int64(18)
		if c.opsets != nil {
			opset = c.opsets[len(c.opsets)-1]
		}
		t.Run(c.op+"/"+c.name, func(t *testing.T) {
			opt := Options{Loss: "none:objective", Trainable: regexp.MustCompile(`^p\d+$`), KeepGradients: true, FusedGradients: FuseOff}
			b := c.model(t, opset)
			plain := train(t, b.m, opt)
			opt.FusedGradients = FuseOn
			step := train(t, b.m, opt)
			calls := 0
			for _, n := range step.Model.Graph.Nodes {
				if n.Op == graph.ConvWeightGrad {
					calls++
					if d := step.Model.Graph.Tensors[n.Outputs[0]].Declared; d == nil || len(n.Inputs) != 2 {
						t.Errorf("%s reads %v, its output is declared as %v", n.Name, n.Inputs, d)
					}
				}
			}
			if want := min(len(plain.Parameters), 1); c.name != "x alone" && (calls != want || len(step.Model.Functions) != 1 || !step.Model.Functions[0].Own()) {
				t.Errorf("%d calls, %d functions: expected %d of graph.ConvWeightGrad", calls, len(step.Model.Functions), want)
			}
			feeds, names := feedsOf(t, plain, b.feeds), gradientsOf(plain)
			want, err := reference.Eval(plain.Model, feeds, names...)
			if err != nil {
				t.Fatal(err)
			}
			inlined, err := graph.Inline(step.Model)
			if err != nil {
				t.Fatal(err)
			}
			operator := *step.Model
			operator.Functions = nil
			for what, m := range map[string]*graph.Model{"function": step.Model, "inlined": inlined, "operator": &operator} {
				got, err := reference.Eval(m, feeds, names...)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				for _, name := range names {
					for i, v := range got[name].F {
						if w := want[name].F[i]; math.Abs(v-w) > 1e-6*max(1, math.Abs(w)) {
							t.Errorf("%s: element %d of %s is %v, expected %v", what, i, name, v, w)
						}
					}
				}
				if _, err := ops.Infer(m, ops.Options{}); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}
