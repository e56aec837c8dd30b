package passes_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// withoutNodes is a graph that hands an initializer out and does not read its input.
func withoutNodes(t *testing.T) []byte {
	t.Helper()
	b := graph.NewBuilder("constant", 17)
	b.Input("x", graph.Type{Kind: graph.KindTensor, Elem: graph.Float32, Ranked: true, Shape: []graph.Dim{graph.Unknown}}, "n")
	b.Output(b.Ints("y", []int64{2}, []int64{3, 4}))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return file(t, m)
}

// TestGraphWithoutNodes: every option gives a valid plan, or says why a limit is impossible.
func TestGraphWithoutNodes(t *testing.T) {
	source := withoutNodes(t)
	for name, opt := range map[string]passes.Options{
		"plain":         {},
		"frontier":      {Frontier: true},
		"swaps":         {Frontier: true, Host: &passes.Host{Link: 1e9}},
		"extra":         {ExtraPercent: 5},
		"slices":        {ExtraPercent: 5, Slices: passes.SlicesExact},
		"slices below":  {Frontier: true, Slices: passes.SlicesAny, Compact: true},
		"pools":         {Pools: []passes.Pool{{Name: "a", Capacity: 16}, {Name: "b", Capacity: 1 << 20, BytesPerSecond: 1e6}}},
		"ranges":        {Ranges: map[string]string{"n": "1..9"}},
		"fast":          {Effort: schedule.EffortFast, Limit: &passes.Limit{Percent: 100}},
		"other runtime": {Runtime: "onnxruntime"},
	} {
		t.Run(name, func(t *testing.T) {
			_, p := accepted(t, source, opt)
			if p.Summary.PeakBytes < 64 || !p.Summary.ScheduleOptimal {
				t.Errorf("expected the input alone, proven, found %+v", p.Summary)
			}
		})
	}
	for name, opt := range map[string]passes.Options{
		"limit":  {Limit: &passes.Limit{Percent: 50}},
		"swaps":  {Limit: &passes.Limit{Bytes: 10}, Host: &passes.Host{Link: 1e9}},
		"slices": {Limit: &passes.Limit{Bytes: 63}, Slices: passes.SlicesExact},
		"fast":   {Limit: &passes.Limit{}, Effort: schedule.EffortFast},
	} {
		t.Run("impossible: "+name, func(t *testing.T) {
			m, err := onnx.Parse("in.onnx", source)
			if err != nil {
				t.Fatal(err)
			}
			var limit *passes.LimitError
			if _, err := passes.Optimize(t.Context(), m, opt); !errors.As(err, &limit) || !limit.Impossible || limit.NeedBytes != 64 || !slices.Equal(limit.Tensors, []string{"x"}) {
				t.Errorf("expected that 64 bytes of x make it impossible, found %+v, %v", limit, err)
			}
		})
	}
}

// TestLimitBelowTheOutputs: outputs live at the end, so a limit below their sum is impossible.
func TestLimitBelowTheOutputs(t *testing.T) {
	b := graph.NewBuilder("heads", 17)
	x := b.Input("x", graph.Type{Kind: graph.KindTensor, Elem: graph.Float32, Ranked: true, Shape: []graph.Dim{32}})
	for _, op := range []string{"Exp", "Tanh", "Sin"} {
		b.Output(b.Node(op, op, x))
	}
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	source := file(t, m)
	for _, host := range []*passes.Host{nil, {Link: 1e12}} {
		m, err := onnx.Parse("in.onnx", source)
		if err != nil {
			t.Fatal(err)
		}
		var limit *passes.LimitError
		if _, err := passes.Optimize(t.Context(), m, passes.Options{Limit: &passes.Limit{Bytes: 300}, Host: host}); !errors.As(err, &limit) || !limit.Impossible || limit.NeedBytes != 3*128 || host != nil && limit.Why != plan.BoundOutputs {
			t.Errorf("host %v: expected that three outputs of 128 bytes make it impossible, found %+v, %v", host, limit, err)
		}
	}
}
