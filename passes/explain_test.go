package passes_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// explainBoth explains a model's plan twice: from memory, and from the file
// written. The explanations must be equal.
func explainBoth(t *testing.T, b []byte, opt passes.Options, most int) (*passes.Explained, *plan.Plan) {
	t.Helper()
	m, err := onnx.Parse("in.onnx", b)
	if err != nil {
		t.Fatal(err)
	}
	r, err := passes.Optimize(t.Context(), m, opt)
	if err != nil {
		t.Fatal(err)
	}
	im, err := onnx.Encode(r.Model)
	if err != nil {
		t.Fatal(err)
	}
	file, err := im.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	look := schedule.ExplainOptions{Options: schedule.Options{Effort: schedule.EffortFast}, Most: most}
	x, err := passes.Explain(t.Context(), r.Model, r.Plan, look)
	if err != nil {
		t.Fatal(err)
	}
	written, err := onnx.Parse("out.onnx", file)
	if err != nil {
		t.Fatal(err)
	}
	y, err := passes.Explain(t.Context(), written, r.Plan, look)
	if err != nil {
		t.Fatal(err)
	}
	if x.Peak != y.Peak || len(x.Live) != len(y.Live) || len(x.Relief) != len(y.Relief) {
		t.Fatalf("in memory %d bytes, %d buffers; from the file %d, %d", x.Peak, len(x.Live), y.Peak, len(y.Live))
	}
	for i := range x.Relief {
		if x.Relief[i].Absent != y.Relief[i].Absent || x.Relief[i].Half != y.Relief[i].Half {
			t.Fatalf("relief %d: in memory %+v, from the file %+v", i, x.Relief[i], y.Relief[i])
		}
	}
	return x, r.Plan
}

func sumOf(live []schedule.Holding) (bytes int64) {
	for _, h := range live {
		bytes += h.Bytes
	}
	return bytes
}

// TestExplainsEveryModel: the explanation of every model of the test data adds up
// to the figures of its plan, including bodies, functions, views and in-place
// results.
func TestExplainsEveryModel(t *testing.T) {
	n := 0
	for _, pattern := range []string{"../testdata/light/*.onnx", "../testdata/nodes/*/model.onnx"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, opt := range []passes.Options{{}, {NoInplace: true, NoViews: true, Align: 1}} {
				x, p := explainBoth(t, b, opt, 0)
				if sumOf(x.Live) != p.Summary.PeakBytes || x.Bound != p.Summary.LowerBoundBytes {
					t.Errorf("%s: peak %d, what lives there adds up to %d", file, p.Summary.PeakBytes, sumOf(x.Live))
				}
				for _, f := range x.Proofs {
					if f.Node >= 0 && sumOf(f.Live) != f.Value {
						t.Errorf("%s: %s proves %d, what lives adds up to %d", file, f.Kind, f.Value, sumOf(f.Live))
					}
				}
				n++
			}
		}
	}
	if n < 50 {
		t.Errorf("only %d models", n)
	}
}

// TestExplainSaysWhatWouldHelp: removing a buffer at the peak lowers the bound by
// at most its bytes, and the peak found neither grows nor falls below the bound.
// The same holds in a training graph.
func TestExplainSaysWhatWouldHelp(t *testing.T) {
	for _, c := range []struct {
		name, network string
		train         *autodiff.Options
	}{
		{"inference", "mobilenet_v2", nil},
		{"training", "mobilenet_v1", &autodiff.Options{Loss: "cross-entropy", Optimizer: "sgd"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := models.Build(c.network, models.Options{})
			if err != nil {
				t.Fatal(err)
			}
			im, err := onnx.Encode(m)
			if err != nil {
				t.Fatal(err)
			}
			file, err := im.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			x, p := explainBoth(t, file, passes.Options{Train: c.train, Effort: schedule.EffortFast}, 3)
			if len(x.Relief) == 0 || p.Mode != c.name {
				t.Fatalf("%s: %d tensors", p.Mode, len(x.Relief))
			}
			for _, r := range x.Relief {
				if o := r.Absent; o.Bound > o.Peak || o.Bound < x.Bound-int64(len(r.Tensors))*r.Bytes || o.Peak > x.Peak {
					t.Errorf("bound %d, without %d bytes bound %d, peak %d", x.Bound, r.Bytes, o.Bound, o.Peak)
				}
				if o := r.Half; o.Bound > o.Peak || o.Bound < r.Absent.Bound {
					t.Errorf("half of %d bytes: bound %d, peak %d; without them %d", r.Bytes, o.Bound, o.Peak, r.Absent.Bound)
				}
			}
		})
	}
}
