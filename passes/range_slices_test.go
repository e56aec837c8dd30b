package passes_test

import (
	"reflect"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// narrowing is a network of convolutions, wide in the middle, for any batch. A Reshape there may state
// the batch as -1.
func narrowing(t *testing.T, reshaped bool) []byte {
	t.Helper()
	b := graph.NewBuilder("narrowing", 17)
	x := b.Input("x", graph.TensorOf(graph.Float32, graph.Unknown, 3, 16, 16), "batch")
	conv := func(name string, x graph.TensorID, from, to int64) graph.TensorID {
		w := make([]float32, to*from*9)
		for i := range w {
			w[i] = float32(i%13)/13 - 0.4
		}
		return b.Add(&graph.Node{Name: name, Op: "Conv", Inputs: []graph.TensorID{x, b.Floats(name+".weight", []int64{to, from, 3, 3}, w)}, Attrs: []*graph.Attr{
			{Name: "pads", Type: graph.AttrInts, Ints: []int64{1, 1, 1, 1}},
		}}, name)[0]
	}
	y := b.Node("Relu", "relu", conv("wide", x, 3, 64))
	if reshaped {
		y = b.Node("Reshape", "folded", y, b.Ints("shape", []int64{4}, []int64{-1, 64, 8, 32}))
	}
	y = b.Node("Relu", "relu", conv("narrow", y, 64, 4))
	b.Output(b.Node("GlobalAveragePool", "y", y))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return file(t, m)
}

// TestRangeSlices: beside ranges, regions are cut along axes of fixed length in one graph for all
// lengths, which has the bits of the graph without slices at each. The verifier compares it with
// the source at each point.
func TestRangeSlices(t *testing.T) {
	ranges := map[string]string{"batch": "1..3"}
	for name, c := range map[string]struct {
		file []byte
		opt  passes.Options
	}{
		"a limit":              {narrowing(t, false), passes.Options{Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: 60}, Device: slowDevice}},
		"slices alone":         {narrowing(t, false), passes.Options{Slices: passes.SlicesExact, NoRecompute: true, Limit: &passes.Limit{Percent: 60}}},
		"a limit on the arena": {narrowing(t, false), passes.Options{Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: 60, Arena: true}, Device: slowDevice}},
		"extra time":           {narrowing(t, false), passes.Options{Slices: passes.SlicesExact, ExtraPercent: 40, Device: slowDevice}},
		"pools":                {narrowing(t, false), passes.Options{Slices: passes.SlicesExact, Pools: []passes.Pool{{Name: "fast", Capacity: 150 << 10}, {Name: "slow", Capacity: 1 << 20}}, Device: slowDevice}},
		"a Reshape":            {narrowing(t, true), passes.Options{Slices: passes.SlicesExact, ExtraPercent: 40, Device: slowDevice}},
	} {
		t.Run(name, func(t *testing.T) {
			c.opt.Ranges = ranges
			unsliced, plain := accepted(t, c.file, passes.Options{Ranges: ranges})
			planned, p := accepted(t, c.file, c.opt)
			if p.Slices == nil || p.Summary.PeakBytes >= plain.Summary.PeakBytes {
				t.Fatalf("expected slices and a peak below %d, found %+v, %d", plain.Summary.PeakBytes, p.Slices, p.Summary.PeakBytes)
			}
			if l := p.Summary.Limited; l != nil && p.Summary.PeakBytes > l.LimitBytes {
				t.Errorf("peak %d above the limit of %d", p.Summary.PeakBytes, l.LimitBytes)
			}
			if reshapes := countOp(t, planned, "Reshape"); name == "a Reshape" && reshapes < 2 {
				t.Errorf("%d nodes Reshape: expected one for each slice", reshapes)
			}
			for _, r := range p.Slices.Regions {
				for _, o := range r.Outputs {
					if o.Axis != nil && *o.Axis == 0 {
						t.Errorf("the batch of %q is cut", o.Tensor)
					}
				}
			}
			comparedAtPoints(t, c.file, planned, p)
			want, got := atPoints(t, unsliced, plain, 3, 1, 2), atPoints(t, planned, p, 3, 1, 2)
			if !reflect.DeepEqual(got, want) {
				t.Error("other results than without slices")
			}
		})
	}
}

// countOp counts the nodes of an operator.
func countOp(t *testing.T, planned []byte, op string) (n int) {
	t.Helper()
	m, err := onnx.Parse("planned.onnx", planned)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range m.Graph.Nodes {
		if x.Op == op {
			n++
		}
	}
	return n
}

// comparedAtPoints checks a plan for ranges against its source.
func comparedAtPoints(t *testing.T, source, planned []byte, p *plan.Plan) {
	t.Helper()
	m, err := onnx.Parse("planned.onnx", planned)
	if err != nil {
		t.Fatal(err)
	}
	from, err := onnx.Parse("in.onnx", source)
	if err != nil {
		t.Fatal(err)
	}
	r, err := verify.Plan(m, p, verify.Options{Source: from})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Valid || r.Ranges != "proven at all 3 points" {
		t.Errorf("expected a valid plan, proven at all points, found\n%s", r)
	}
	for _, claim := range r.Claimed {
		if claim == "slices" {
			t.Error("the slices are claimed: expected them to be compared")
		}
	}
}
