package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
)

// TestPasses: what passes plans is accepted, its bound with it; and is not once a
// certificate says one grain more.
func TestPasses(t *testing.T) {
	list := map[string]text{}
	for name, x := range models {
		if x.props == nil { // a training graph is not planned from a file
			list[name] = x
		}
	}
	for name, b := range bases {
		if b.x.props == nil {
			list["base: "+name] = b.x
		}
	}
	list["branches side by side"] = fans(4, 5)
	for _, name := range sorted(list) {
		for _, opt := range []passes.Options{{}, {NoInplace: true}, {NoViews: true, NoInplace: true}} {
			t.Run(fmt.Sprintf("%s/in place=%t/views=%t", name, !opt.NoInplace, !opt.NoViews), func(t *testing.T) {
				found, err := passes.Optimize(list[name].build(t), opt)
				if err != nil {
					t.Fatal(err)
				}
				im, err := onnx.Encode(found.Model)
				if err != nil {
					t.Fatal(err)
				}
				found.Plan.Model = plan.ImageOf("out.onnx", im)
				file := encode(t, found.Model)
				check := func(p *plan.Plan) *plan.Report {
					t.Helper()
					r, err := plan.Verify(parse(t, file), p, plan.VerifyOptions{})
					if err != nil {
						t.Fatal(err)
					}
					return r
				}
				if r := check(found.Plan); !r.Valid {
					t.Fatal(r)
				}
				for i, c := range found.Plan.Certificates {
					if c.Kind == plan.CertificateSearch || c.ValueBytes < found.Plan.Summary.LowerBoundBytes {
						continue
					}
					p := clone(t, found.Plan)
					p.Certificates[i].ValueBytes += p.Alignment
					r := check(p)
					if !slices.ContainsFunc(r.Violations, func(v plan.Violation) bool { return v.Code == plan.CodeCertificate }) {
						t.Errorf("certificate %d, %s of %v: %d bytes are accepted, expected at most %d", i, c.Kind, c.Steps, c.ValueBytes+p.Alignment, c.ValueBytes)
					}
				}
			})
		}
	}
}

// fans is a model of several branches, each of which grows and shrinks as often
// as it is long.
func fans(branches, length int) text {
	var b strings.Builder
	b.WriteString("in x float32 64\nt = Relu(x)\n")
	var ends []string
	for i := range branches {
		from := "t"
		for k := range length {
			grown, shrunk := fmt.Sprintf("g%d_%d", i, k), fmt.Sprintf("s%d_%d", i, k)
			fmt.Fprintf(&b, "%s = Concat(%s) axis=0\n", grown, strings.Join(slices.Repeat([]string{from}, 2+(i+k)%3), ", "))
			fmt.Fprintf(&b, "%s = ReduceMax(%s)\n", shrunk, grown)
			from = shrunk
		}
		ends = append(ends, from)
	}
	fmt.Fprintf(&b, "y = Sum(%s)\nout y\n", strings.Join(ends, ", "))
	return text{main: b.String()}
}
