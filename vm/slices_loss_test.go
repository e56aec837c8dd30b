package vm_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/vm"
)

// languageModel scores a vocabulary of 768 words for each of 1,024 tokens, by four layers of width 64.
func languageModel(t *testing.T) string {
	t.Helper()
	b := graph.NewBuilder("words", 20)
	weight := drawn(b)
	x := b.Input("x", graph.TensorOf(graph.Float32, 1, 1024, 64))
	for _, layer := range []string{"first", "second", "third", "fourth"} {
		x = b.Node("Tanh", layer+".tanh", b.Node("MatMul", layer, x, weight(layer+".weight", 64, 64)))
	}
	b.Output(b.Node("MatMul", "logits", x, weight("head.weight", 64, 768)))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return write(t, m, "words")
}

// The loss of scores that are widened from 16 bits runs in slices, without a limit and below one,
// where the step needs less memory then, and gives the same bits.
func TestLossInSlices(t *testing.T) {
	file := languageModel(t)
	for _, c := range []struct {
		elem  graph.DType
		limit *passes.Limit
	}{
		{graph.BFloat16, nil}, {graph.Float16, nil}, {graph.BFloat16, &passes.Limit{Percent: 90}},
	} {
		opt := passes.Options{Aliases: passes.AliasesOff, Effort: schedule.EffortFast, Train: &autodiff.Options{}, Precision: &passes.Precision{Type: c.elem}, Limit: c.limit, Device: passes.Device{FLOPS: 1e8, Bandwidth: 1e9}}
		sliced, r := program(t, file, opt)
		opt.Disable, opt.Limit = []string{"loss"}, nil
		whole, of := program(t, file, opt)
		s := r.Plan.Summary
		if len(r.GivenUp)+len(of.GivenUp) > 0 {
			t.Fatal(r.GivenUp, of.GivenUp)
		}
		if r.Plan.Slices == nil || r.Plan.Slices.Mode != plan.SlicesOfLoss || of.Plan.Slices != nil {
			t.Fatalf("%v, limit %v: the loss does not run in slices, or without the pass, too", c.elem, c.limit)
		}
		if s.PeakBytes > of.Plan.Summary.PeakBytes*3/4 || s.UnslicedPeakBytes != of.Plan.Summary.PeakBytes {
			t.Errorf("%v, limit %v: peak %d B, said to be %d B without slices, found %d B", c.elem, c.limit, s.PeakBytes, s.UnslicedPeakBytes, of.Plan.Summary.PeakBytes)
		}
		if l := c.limit; l != nil && (s.PeakBytes > s.LimitBytes || s.LimitBytes > r.Plan.Unlimited()*90/100) {
			t.Errorf("limit %d B of %d B, peak %d B", s.LimitBytes, r.Plan.Unlimited(), s.PeakBytes)
		}
		want, _ := runSteps(t, whole, vm.Options{}, of.Step.Params, 2)
		got, _ := runSteps(t, sliced, vm.Options{}, r.Step.Params, 2)
		sameBits(t, "in slices", got, want)
	}
}
