package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/report"
)

// curve returns a plan with a frontier of three points, the last impossible.
func curve() *plan.Plan {
	v := func(x float64) *float64 { return &x }
	p := &plan.Plan{Model: plan.File{File: "a<b>&c.onnx"}}
	p.Summary.PeakBytes = 2 << 20
	p.Frontier = []plan.FrontierPoint{
		{LimitBytes: 1 << 20, ExtraCostPercent: v(1.25), ExtraCostBound: v(1)},
		{LimitBytes: 1 << 19, ExtraCostBound: v(40)},
		{LimitBytes: 1 << 18, Impossible: true},
	}
	return p
}

func TestFrontier(t *testing.T) {
	var out bytes.Buffer
	report.Frontier(&out, curve())
	want := `limit                                of peak   extra time   no plan below
2.00 MiB (2,097,152 B)               100.0 %       0.00 %          0.00 %
1.00 MiB (1,048,576 B)                50.0 %       1.25 %          1.00 %
512.00 KiB (524,288 B)                25.0 %   none found         40.00 %
256.00 KiB (262,144 B)                12.5 %   impossible
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nexpected\n%s", got, want)
	}
}

// TestFrontierPicture: whatever the model's name, the picture is well-formed XML with a
// point for each plan and each bound.
func TestFrontierPicture(t *testing.T) {
	var out bytes.Buffer
	if err := report.FrontierPicture(&out, curve()); err != nil {
		t.Fatal(err)
	}
	picture := out.String()
	for d := xml.NewDecoder(&out); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for class, points := range map[string]int{"plans": 1, "bound": 2} {
		_, path, _ := strings.Cut(picture, `<path class="`+class+`" d="M84 296.0`)
		path, _, _ = strings.Cut(path, `"`)
		if got := strings.Count(path, "L"); got != points {
			t.Errorf("%s: %d points in %q, expected %d", class, got, path, points)
		}
	}
	for _, word := range []string{"a&lt;b&gt;&amp;c.onnx: what a limit costs", "impossible at 12 %"} {
		if !strings.Contains(picture, word) {
			t.Errorf("the picture lacks %q", word)
		}
	}
}
