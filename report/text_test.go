package report

import (
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/plan"
)

// The summary says how far the arena is proven.
func TestSummaryOfThePlacement(t *testing.T) {
	for _, c := range []struct {
		name    string
		arena   int64
		optimal bool
		want    string
	}{
		{"as small as the peak", 1000, true, "arena                1000 B, fragmentation 0.00 %\n"},
		{"larger, and proven", 1010, true, "arena                1010 B, fragmentation 0.99 %: proven, no placement of these buffers does better\n"},
		{"larger, not proven", 1010, false, "arena                1010 B, fragmentation 0.99 %: not proven, a placement as small as the peak may exist\n"},
	} {
		p := &plan.Plan{Summary: plan.Summary{PeakBytes: 1000, ArenaBytes: c.arena, PlacementOptimal: c.optimal}}
		var got strings.Builder
		Summary(&got, p)
		if !strings.Contains(got.String(), c.want) {
			t.Errorf("%s: got\n%swant %q", c.name, &got, c.want)
		}
	}
}
