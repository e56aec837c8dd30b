package limits

import (
	"fmt"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
)

// Lowest is the lowest plan in slices alone that was found, and what bounds it.
// The figures but AnySlices are 0 if no slices were found.
type Lowest struct {
	PeakBytes  int64
	BoundBytes int64           // for any order of these slices
	AnyCount   plan.SliceBound // for these regions in any number of slices
	AnySlices  plan.SliceBound // for any regions
}

// text says what stands in the way of a limit.
func (x *Lowest) text(limit int64) string {
	switch {
	case x.AnySlices.Bytes > limit:
		return x.AnySlices.Text()
	case x.PeakBytes == 0:
		return "no regions to run in slices were found"
	case x.AnyCount.Bytes > limit:
		return fmt.Sprintf("in slices alone %s: %s", units.Bytes(x.PeakBytes), x.AnyCount.Text())
	case x.BoundBytes > limit:
		return fmt.Sprintf("in slices alone %s: no order of these slices needs less than %s", units.Bytes(x.PeakBytes), units.Bytes(x.BoundBytes))
	}
	return fmt.Sprintf("in slices alone %s", units.Bytes(x.PeakBytes))
}
