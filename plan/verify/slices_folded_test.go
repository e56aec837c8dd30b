package verify_test

import (
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// A model of which constants are folded can run in slices, too.
func TestSlicedAndFolded(t *testing.T) {
	x := text{main: `
		in x float32 128 128
		weight w float32 1024 128
		weight v float32 128 1024
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
