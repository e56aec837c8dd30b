package vm_test

import (
	"encoding/binary"
	"regexp"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/vm"
)

// languageModel scores a vocabulary of 768 words for each of 1,024 tokens, by four layers of width 64.
// batch is nothing, or the leading axes.
func languageModel(t *testing.T, batch ...graph.Dim) string {
	t.Helper()
	b := graph.NewBuilder("words", 20)
	weight := drawn(b)
	x := b.Input("x", graph.TensorOf(graph.Float32, append(batch, 1024, 64)...))
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
	file, flat := languageModel(t, 1), languageModel(t)
	for _, c := range []struct {
		file   string
		elem   graph.DType
		limit  *passes.Limit
		frozen *regexp.Regexp
	}{
		{file, graph.BFloat16, nil, nil},
		{file, graph.Float16, nil, nil},
		{file, graph.BFloat16, &passes.Limit{Percent: 90}, nil},
		{flat, graph.BFloat16, nil, nil},
		{file, graph.BFloat16, nil, regexp.MustCompile("head")},
	} {
		opt := passes.Options{Aliases: passes.AliasesOff, Effort: schedule.EffortFast, Train: &autodiff.Options{Freeze: c.frozen}, Precision: &passes.Precision{Type: c.elem}, Limit: c.limit, Device: passes.Device{FLOPS: 1e8, Bandwidth: 1e9}}
		sliced, r := program(t, c.file, opt)
		opt.Disable, opt.Limit = []string{"loss"}, nil
		whole, of := program(t, c.file, opt)
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
		sameBits(t, "in slices", someLabels(t, sliced, r.Step.Params), someLabels(t, whole, of.Step.Params))
	}
}

// someLabels returns the outputs of the second step with labels that do not count: the first 64, all of a
// slice, and a third of the others.
func someLabels(t *testing.T, p *vm.Program, params *graph.Model) map[string]vm.Value {
	t.Helper()
	s := newSession(t, p, vm.Options{})
	if err := s.Load(params); err != nil {
		t.Fatal(err)
	}
	inputs, ignored := inputsOf(p), 0
	for name, v := range inputs {
		if v.Type != graph.Int64 {
			continue
		}
		v = v.Clone()
		for i := range len(v.Data) / 8 {
			if i < 64 || i%3 == 0 {
				binary.LittleEndian.PutUint64(v.Data[8*i:], ^uint64(99)) // -100
				ignored++
			}
		}
		inputs[name] = v
	}
	if ignored != 64+320 {
		t.Fatalf("%d labels do not count: expected 384", ignored)
	}
	var out map[string]vm.Value
	for range 2 {
		var err error
		if out, err = s.Run(t.Context(), inputs); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
