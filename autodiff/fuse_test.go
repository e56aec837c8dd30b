package autodiff

import (
	"regexp"
	"slices"
	"strings"
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
			opt.FusedGradients = true
			step := train(t, b.m, opt)
			inlined, err := graph.Inline(step.Model)
			if err != nil {
				t.Fatal(err)
			}
			if len(step.Model.Functions) > 0 {
				fused[ruleKey{c.domain, c.op}] = true
			}
			feeds := residents(t, plain)
			for name, x := range b.feeds {
				feeds[name] = x
			}
			feeds[rateName] = &reference.Tensor{Type: graph.Float32, Shape: []int{}, F: []float64{0.01}}
			var names []string
			for _, p := range plain.Parameters {
				names = append(names, p+".grad")
			}
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

// TestFusedFunctions: two convolutions of one kind share a function, the gradients of
// weights and of the input are separate calls, and the shapes of the functions' outputs
// are declared.
func TestFusedFunctions(t *testing.T) {
	b := newBuilder("fused", 18)
	x := b.input("x", b.value(operand{shape: []int{2, 3, 6, 6}, elem: graph.Float32}))
	for _, name := range []string{"w1", "w2", "w3"} {
		w := b.initializer(name, b.value(operand{shape: []int{3, 3, 3, 3}, elem: graph.Float32}))
		x = b.op("y_"+name, "Conv", attrs{"pads": filled(1, 4)}, x, w)
	}
	b.finish(b.op("objective", "ReduceSum", attrs{"keepdims": 0}, x))
	step := train(t, b.m, Options{Loss: "none:objective", FusedGradients: true})
	var calls []string
	for _, n := range step.Model.Graph.Nodes {
		if n.Domain != fusedDomain {
			continue
		}
		calls = append(calls, n.Op)
		if len(n.Inputs) < 4 || n.Inputs[1] != graph.None || n.Inputs[2] != graph.None {
			t.Errorf("%s reads %v: expected the input and the output's gradient alone", n.Name, n.Inputs)
		}
		if wrt := n.Attr("wrt"); wrt == nil || !slices.Equal(wrt.Ints, []int64{1}) {
			t.Errorf("%s: wrt is %v, expected the weights", n.Name, wrt)
		}
		if d := step.Model.Graph.Tensors[n.Outputs[0]].Declared; d == nil || d.Type.String() != "float32[3,3,3,3]" {
			t.Errorf("%s: its output is declared as %v", n.Name, d)
		}
	}
	if want := []string{"ConvGrad", "ConvGrad", "ConvGrad"}; !slices.Equal(calls, want) {
		t.Errorf("calls %v, expected %v", calls, want)
	}
	if f := step.Model.Functions; len(f) != 1 || f[0].Name != "ConvGrad" || f[0].Domain != fusedDomain {
		t.Errorf("%d functions: expected ConvGrad alone", len(f))
	}
	if graph.FindOpset(step.Model.Opsets, fusedDomain) != 1 {
		t.Error("the domain is not imported")
	}
	if !strings.Contains(step.Model.Functions[0].Body.Nodes[0].Op, "Transpose") {
		t.Errorf("the body begins with %s", step.Model.Functions[0].Body.Nodes[0].Op)
	}
}
