package explain

import (
	"fmt"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/passes"
)

// FoldHint says what --fold any would save.
func FoldHint(h *passes.FoldHint) string {
	return fmt.Sprintf("with --fold any      peak %s instead of %s, total %s instead of %s: products would read %s as it lies",
		units.Short(h.PeakBytes), units.Short(h.ExactPeakBytes), units.Short(h.TotalBytes), units.Short(h.ExactTotalBytes), units.Name(h.Tensors[0]))
}

// AttentionHint says what --attention would save of a peak.
func AttentionHint(h *passes.AttentionHint, peak int64) string {
	if h.KeptBytes > 0 {
		return fmt.Sprintf("with --attention     the backward pass would not keep weights of attention, which are %s of the peak", units.Short(h.KeptBytes))
	}
	return fmt.Sprintf("with --attention     peak %s instead of %s: scores would be in no memory", units.Short(h.PeakBytes), units.Short(peak))
}
