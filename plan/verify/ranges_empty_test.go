package verify_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// TestRangesOfBodiesWithoutNodes: a body that passes its inputs on has one order, so what it
// holds is a bound of its workspace at each point, without a certificate.
func TestRangesOfBodiesWithoutNodes(t *testing.T) {
	x := text{
		main: `
			in n int64[]
			in c bool[]
			in x float32[batch,64]
			a = Relu(x)
			y = Loop(n, c, a)
			z = Neg(y)
			out z`,
		bodies: map[string]string{"y.body": `
			in k int64[]
			in go bool[]
			in v float32[batch,64]
			out go
			out v`},
	}
	source, file, p := planReal(t, x, passes.Options{Ranges: map[string]string{"batch": "2,5"}})
	r, err := verify.Plan(parse(t, file), p, verify.Options{Source: parse(t, source)})
	if err != nil || !r.Valid || p.Ranges.OptimalPoints != 2 {
		t.Errorf("expected a valid plan whose 2 points are proven, found %d, %v, %v", p.Ranges.OptimalPoints, r, err)
	}
}
