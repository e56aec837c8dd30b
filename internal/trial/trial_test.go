package trial

import (
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/onnx"
)

// TestTrials: plans of random networks under random options are valid, and run with the bits
// of separate storage and with the results of the network without options. Make sweeps tries
// 300.
func TestTrials(t *testing.T) {
	number := uint64(80)
	if sweep.On() {
		number = 300
	}
	counts := map[string]int{}
	for k := range number {
		c, err := New(k)
		if err != nil {
			t.Fatal(err)
		}
		r := c.Try(t.Context())
		if counts[r.Kind]++; r.Finding() {
			t.Errorf("%s %s: %s: %s", c.Name, strings.Join(c.Options, " "), r.Kind, r.Says)
		}
	}
	if counts[Ran] < int(number)/2 {
		t.Errorf("%d of %d trials ran: %v", counts[Ran], number, counts)
	}
}

// TestShrink: a trial becomes as small as its finding allows, here a usage error of one
// option.
func TestShrink(t *testing.T) {
	c, err := New(3)
	if err != nil {
		t.Fatal(err)
	}
	c.Options = []string{"--no-views", "--align", "3", "--no-inplace"}
	small := c.Shrink(t.Context(), c.Try(t.Context()))
	if want := []string{"--align", "3"}; !slices.Equal(small.Options, want) {
		t.Errorf("options %v, expected %v", small.Options, want)
	}
}

// TestSmaller: every edit of a model gives a valid model that the planner takes, or none.
func TestSmaller(t *testing.T) {
	for seed := range uint64(12) {
		c, err := New(seed)
		if err != nil {
			t.Fatal(err)
		}
		c.Options = nil
		for k := 0; ; k++ {
			model, ok := smaller(c, k)
			if !ok {
				break
			}
			if model == nil {
				continue
			}
			m, err := onnx.Parse("smaller", model)
			if err == nil {
				err = graph.Check(m)
			}
			if err != nil {
				t.Errorf("trial %d, edit %d: %v", seed, k, err)
			}
		}
	}
}
