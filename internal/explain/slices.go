package explain

import (
	"fmt"
	"io"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
)

// explainSlices says what the slices of a plan save and cost, and what bounds them.
type explainSlices struct {
	plan.Unsliced
	Mode      string          `json:"mode"`
	Regions   int             `json:"regions"`
	AnyCount  plan.SliceBound `json:"any_count"`
	AnySlices plan.SliceBound `json:"any_slices"`
}

// explainSlicesOf explains the slices of a plan; nil if it has none.
func explainSlicesOf(p *plan.Plan) *explainSlices {
	if p == nil || p.Slices == nil || p.Summary.Unsliced == nil {
		return nil
	}
	return &explainSlices{*p.Summary.Unsliced, p.Slices.Mode, len(p.Slices.Regions), p.Slices.AnyCount, p.Slices.AnySlices}
}

// print prints the explanation.
func (x *explainSlices) print(out io.Writer) {
	if x.Mode == plan.SlicesOfLoss {
		fmt.Fprintf(out, "\nthe loss runs in slices, at %.2f %% more time by estimate; without them the peak is %s\n", x.SliceCostPercent, units.Bytes(x.UnslicedPeakBytes))
		return
	}
	fmt.Fprintf(out, "\nregions that run in slices: %d, at %.2f %% more time by estimate; without them the peak is %s\n", x.Regions, x.SliceCostPercent, units.Bytes(x.UnslicedPeakBytes))
	fmt.Fprintf(out, "  %s\n", x.AnyCount.Text())
	if x.AnyCount.Bytes != x.AnySlices.Bytes {
		fmt.Fprintf(out, "  %s\n", x.AnySlices.Text())
	}
}
