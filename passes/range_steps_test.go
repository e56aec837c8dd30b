package passes_test

import (
	"math"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

const linearText = `ir 8
opset 17
in x float32[batch,6]
init w float32[6,6] = 0.25
y = MatMul(x, w)
out y`

const headsText = `ir 8
opset 17
in x float32[batch,9,4]
init wq float32[4,4] = 0.25
init wk float32[4,4] = 0.5
init wv float32[4,4] = -0.5
init heads int64[4] = [0, 0, 2, 2]
init whole int64[3] = [0, 0, -1]
qm = MatMul(x, wq)
qr = Reshape(qm, heads)
q = Transpose(qr) perm=[0, 2, 1, 3]
km = MatMul(x, wk)
kr = Reshape(km, heads)
k = Transpose(kr) perm=[0, 2, 3, 1]
vm = MatMul(x, wv)
vr = Reshape(vm, heads)
v = Transpose(vr) perm=[0, 2, 1, 3]
s = MatMul(q, k)
p = Softmax(s) axis=3
c = MatMul(p, v)
t = Transpose(c) perm=[0, 2, 1, 3]
y = Reshape(t, whole)
out y`

// TestRangeSlicesOfSteps: training steps for several lengths run in slices, also where the lengths
// that the step computes are computed in slices, and where nodes of slices run again. Such a plan
// runs at each length.
func TestRangeSlicesOfSteps(t *testing.T) {
	for _, c := range []struct {
		name, text string
		opt        passes.Options
		again      bool
	}{
		{"lengths in slices", linearText, passes.Options{Slices: passes.SlicesExact, ExtraPercent: 100, Train: &autodiff.Options{Loss: "l1", Accumulate: 2}}, false},
		{"nodes of slices run again", headsText, passes.Options{Slices: passes.SlicesAny, ExtraPercent: 100, Train: &autodiff.Options{Loss: "mse"}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := graph.Parse("net", c.text)
			if err != nil {
				t.Fatal(err)
			}
			source := file(t, m)
			c.opt.Ranges, c.opt.Effort = map[string]string{"batch": "2,6"}, schedule.EffortFast
			unsliced, plain := accepted(t, source, passes.Options{Ranges: c.opt.Ranges, Train: c.opt.Train, Effort: c.opt.Effort})
			planned, p := accepted(t, source, c.opt)
			if again := slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return s.Again != nil }); c.again && (p.Slices == nil || !again) {
				t.Fatalf("slices: %t, nodes that run again: %t: expected both", p.Slices != nil, again)
			}
			want, got := atPoints(t, unsliced, plain, 6, 2), atPoints(t, planned, p, 6, 2)
			for i := range want {
				for name, v := range want[i] {
					a, _ := got[i][name].Reals()
					b, _ := v.Reals()
					for k := range b {
						if math.Abs(a[k]-b[k]) > 1e-5 {
							t.Fatalf("run %d, %s[%d]: %v, without slices %v", i, name, k, a[k], b[k])
						}
					}
				}
			}
		})
	}
}
