package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// TestProductsInSlices: products that read a constant as it lies run in slices, in inference
// and training: the slices are compared with such a product. One that reads it transposed
// again, which has the same shapes where the constant is square, is found. What a region
// reads runs before its first slice, wherever it stands in the source, so the program order
// of a sliced plan is claimed.
func TestProductsInSlices(t *testing.T) {
	const inference = `
		in i int64[2]
		in x float32[512,64]
		in z float32[64]
		init k float32[64,64] = ...
		w = Transpose(k)
		early = Neg(z)
		a = %s
		b = Mul(a, early)
		c = Sigmoid(b)
		d = Mul(c, b)
		y = ReduceSum(d)
		g = Gather(k, i)
		out y
		out g`
	const training = `
		in i int64[256]
		in j int64[256]
		init k float32[512,32] = ...
		init q float32[64,32] = ...
		late = Gather(q, j)
		h = Gather(k, i)
		s = Relu(h)
		a = Add(s, late)
		w = Transpose(k)
		y = MatMul(a, w)
		out y`
	half := &passes.Limit{Percent: 60}
	for _, c := range []struct {
		name, main, wrong string
		opt               passes.Options
	}{
		{"a MatMul", fmt.Sprintf(inference, "MatMul(x, w)"), "transB", passes.Options{}},
		{"a Gemm", fmt.Sprintf(inference, "Gemm(x, w)"), "transB", passes.Options{}},
		{"a Gemm that transposed again", fmt.Sprintf(inference, "Gemm(x, w) transB=1"), "transB", passes.Options{}},
		{"from the left", strings.NewReplacer("x float32[512,64]", "x float32[64,512]", "z float32[64]", "z float32[512]").Replace(fmt.Sprintf(inference, "MatMul(w, x)")), "", passes.Options{}},
		{"a step of training", training, "", passes.Options{Train: &autodiff.Options{Loss: "cross-entropy"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.opt.Fold, c.opt.Slices, c.opt.Limit = passes.FoldAny, passes.SlicesAny, half
			source, file, p := planReal(t, text{main: c.main}, c.opt)
			if p.Slices == nil || p.Folded == nil || len(p.Folded.Products) == 0 {
				t.Fatalf("expected slices of products that read constants as they lie, found %+v and %+v", p.Slices, p.Folded)
			}
			m := parse(t, file)
			check := func(want string) {
				t.Helper()
				r, err := verify.Plan(m, p, verify.Options{Source: parse(t, source)})
				switch {
				case err != nil:
					t.Fatal(err)
				case want == "" && (!r.Valid || !slices.Contains(r.Claimed, "program_order")):
					t.Errorf("expected a valid plan whose program order is claimed, found\n%v", r)
				case want != "" && !slices.ContainsFunc(r.Violations, func(v verify.Violation) bool { return v.Code == verify.CodeSlices && strings.Contains(v.Message, want) }):
					t.Errorf("expected %q, found\n%v", want, r)
				}
			}
			check("")
			if c.wrong == "" {
				return
			}
			changed := 0
			for _, n := range m.Graph.Nodes {
				if a := n.Attr(c.wrong); n.Op == "Gemm" && a != nil {
					flipped := *a
					flipped.Int = 1 - a.Int
					n.Attrs[slices.Index(n.Attrs, a)], changed = &flipped, changed+1
				}
			}
			if changed < 2 {
				t.Fatalf("%d slices of a Gemm, expected several", changed)
			}
			p.Model.GraphSHA256 = "" // else the file is another one
			check("Gemm")
		})
	}
}
