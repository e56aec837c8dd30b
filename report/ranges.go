package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
)

// Ranges prints what a plan for ranges of dimensions needs at other points than the
// corner, for which the other figures of the plan are.
func Ranges(w io.Writer, p *plan.Plan) {
	r := p.Ranges
	if r == nil {
		return
	}
	var box []string
	names, _ := p.Box()
	corner := map[string]int64{}
	for _, name := range names {
		corner[name] = p.Dims[name].Value
		box = append(box, units.Name(name)+"="+p.Dims[name].String())
	}
	how := "each proven by itself"
	if r.Proof == plan.ProofBounded {
		how = fmt.Sprintf("proven by bounded lengths; %d compared with their bounds", r.Inferred)
	}
	fmt.Fprintf(w, "ranges               %s: %s, %s\n", strings.Join(box, ", "), number(r.Points, "point"), how)
	fmt.Fprintf(w, "corner               %s: the figures above\n", PointName(corner))
	fmt.Fprintf(w, "smallest point       %s: arena %s\n", PointName(r.Smallest.Dims), units.Bytes(r.Smallest.ArenaBytes))
	left := r.Inferred - r.Refused
	if r.OptimalPoints == left {
		fmt.Fprintf(w, "worst ratio          1.000: at each of %s the arena is the lower bound\n", number(left, "point"))
	} else {
		fmt.Fprintf(w, "worst ratio          %.3f at %s: arena %s, bound %s; the bound at %s of %s\n", r.Worst.Ratio(), PointName(r.Worst.Dims),
			units.Short(r.Worst.ArenaBytes), units.Short(r.Worst.LowerBoundBytes), units.Group(int64(r.OptimalPoints)), number(left, "point"))
	}
	if r.Refused > 0 {
		fmt.Fprintf(w, "refused by the model %s: %s\n", number(r.Refused, "point"), refusals(r))
	}
}

// PointName names the lengths of a point, ascending by dimension.
func PointName(dims map[string]int64) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(dims)) {
		list = append(list, fmt.Sprintf("%s=%d", units.Name(name), dims[name]))
	}
	return strings.Join(list, ", ")
}

// refusals says which lengths the model takes, or why it refuses the first point.
func refusals(r *plan.Ranges) string {
	if len(r.Accepted) == 0 {
		return "first " + r.Refusal
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(r.Accepted)) {
		list = append(list, fmt.Sprintf("%s takes %v", units.Name(name), r.Accepted[name]))
	}
	return strings.Join(list, ", ")
}
