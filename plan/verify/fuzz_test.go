package verify_test

import (
	"bytes"
	"testing"

	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// FuzzPlan: no plan makes the verifier panic, and no plan with another arena than the
// file's own plan is valid.
func FuzzPlan(f *testing.F) {
	type file struct {
		onnx   []byte
		source []byte // nil: none
		good   *plan.Plan
	}
	var files []file
	for _, c := range planned {
		if c.name == "many steps" {
			continue
		}
		b, p := c.plan(f, models[c.model])
		files = append(files, file{b, nil, p})
		text, err := p.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(len(files)-1), text)
	}
	for i := range slicedTexts {
		x := planSliced(f, i)
		files = append(files, file{x.file, x.source, x.p})
		text, err := x.p.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(len(files)-1), text)
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		p, err := plan.Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		x := files[int(which)%len(files)]
		opt := verify.Options{}
		if x.source != nil {
			opt.Source = parse(t, x.source)
		}
		r, err := verify.Plan(parse(t, x.onnx), p, opt)
		if err != nil {
			t.Fatalf("the model is refused: %v", err)
		}
		if r.Valid != (len(r.Violations) == 0) {
			t.Fatalf("valid %t with %d violations", r.Valid, len(r.Violations))
		}
		// The annotations fix every offset of a node's output, so these cannot change.
		if want := x.good.Summary; r.Valid && (p.Summary.PeakBytes != want.PeakBytes || p.Summary.ArenaBytes != want.ArenaBytes || p.Summary.ResidentBytes != want.ResidentBytes) {
			t.Fatalf("valid with summary %+v, expected %+v", p.Summary, want)
		}
		if r.String() == "" {
			t.Fatal("no report")
		}
	})
}
