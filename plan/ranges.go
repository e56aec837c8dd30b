package plan

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/dimrange"
)

// RangesVersion is the version of a plan for ranges of dimensions. The buffers, the steps
// and the summary of such a plan are those of the corner, at which each dimension has its
// largest length; so is the plan that a reader sees who ignores [Plan.Ranges].
const RangesVersion = 2

// Lengths are those of a dimension for which a model is planned: from Low to the
// dimension's value in steps of Step, or those of Values, ascending.
type Lengths struct {
	Low    *int64  `json:"low,omitempty"`
	Step   int64   `json:"step,omitempty"`
	Values []int64 `json:"values,omitempty"`
	// Follows: the length is not given, but follows from those of other dimensions.
	Follows bool `json:"follows,omitempty"`
}

// Ranges says what holds at all points of a box of dimensions: one order and one stacking
// of the buffers, from which the offsets of each point follow. A point has a length for
// each dimension that has more than one.
type Ranges struct {
	Points int `json:"points"` // all combinations of lengths
	// Inferred is the number of points that were inferred by themselves: all, or those of
	// the table if the proof is one with bounded lengths.
	Inferred int `json:"inferred"`
	Refused  int `json:"refused"` // inferred points at which the model has no valid shapes
	// Refusal says why, at the first of them; "": there is none.
	Refusal string `json:"refusal,omitempty"`
	// Accepted has, for each dimension that loses lengths by refusals, those that it keeps,
	// if the accepted points are all combinations of such lengths.
	Accepted map[string]AcceptedLengths `json:"accepted,omitempty"`
	Proof    string                     `json:"proof"` // [ProofEnumerated] or [ProofBounded]

	// OptimalPoints is the number of inferred points whose arena is the lower bound of the
	// point.
	OptimalPoints int `json:"optimal_points"`
	// Smallest is the inferred point of the smallest arena; Worst, of the largest ratio of
	// arena and lower bound. Ties fall to the first point.
	Smallest RangePoint `json:"smallest"`
	Worst    RangePoint `json:"worst"`

	// Stacking ranks the buffers of the arena from below, as indices into Plan.Buffers. At
	// any point, the offset of a buffer is the largest end of those before it that are live
	// with it, or 0; one of 0 bytes holds up nothing.
	Stacking []int `json:"stacking"`
	// Certificates has the sets of nodes that prove the bounds of the points.
	Certificates []RangeCertificate `json:"certificates"`
	// Table has the figures of some points, ascending, the last dimension fastest.
	Table []RangePoint `json:"table"`
	// Sizes are the sizes of buffers before they are rounded up, in bytes, as polynomials
	// of the lengths that give the size of each point. SizeOf has, for each buffer of
	// Plan.Buffers, the index of its size; -1: it is in another pool, or no polynomial
	// gives its size.
	Sizes  []Polynomial `json:"sizes"`
	SizeOf []int        `json:"size_of"`
}

// The proofs of what holds at all points.
const (
	// ProofEnumerated: every point was inferred by itself.
	ProofEnumerated = "enumerated"
	// ProofBounded: one inference with lengths that are at most those of the corner shows
	// what is shared, and that no buffer is larger at any point than at the corner.
	ProofBounded = "bounded"
)

// AcceptedLengths are Low, Low + Step and so on up to High.
type AcceptedLengths struct {
	Low  int64 `json:"low"`
	High int64 `json:"high"`
	Step int64 `json:"step"`
}

// String returns the lengths in words.
func (a AcceptedLengths) String() string {
	switch {
	case a.Low == a.High:
		return fmt.Sprintf("%d only", a.Low)
	case a.Step == 1:
		return fmt.Sprintf("%d to %d", a.Low, a.High)
	case a.Low%a.Step == 0:
		return fmt.Sprintf("multiples of %d from %d to %d", a.Step, a.Low, a.High)
	}
	return fmt.Sprintf("%d to %d in steps of %d", a.Low, a.High, a.Step)
}

// RangePoint is what the plan needs at a point, in bytes.
type RangePoint struct {
	Dims            map[string]int64 `json:"dims"`
	ArenaBytes      int64            `json:"arena_bytes"`
	PeakBytes       int64            `json:"peak_bytes"`        // the largest load of the buffers
	LowerBoundBytes int64            `json:"lower_bound_bytes"` // for any order at this point, with all sharing that is possible there
}

// Ratio is the arena divided by the bound; 1 if both are 0.
func (p RangePoint) Ratio() float64 {
	return float64(max(1, p.ArenaBytes)) / float64(max(1, p.LowerBoundBytes))
}

// RangeCertificate is a [Certificate] without a value: it proves a bound at each point.
type RangeCertificate struct {
	Kind  string   `json:"kind"`
	Nodes []string `json:"nodes"` // names, for readers
	Steps []int    `json:"steps"` // the same nodes as steps of the planned order
}

// Polynomial is a sum of terms.
type Polynomial []Term

// Term is Factor times the product of powers of lengths.
type Term struct {
	Factor int64          `json:"factor"`
	Powers map[string]int `json:"powers,omitempty"` // by dimension
}

// At returns the polynomial's value for some lengths. ok is false if it, or a term, is
// negative or above the largest int64, or if a length is missing.
func (p Polynomial) At(dims map[string]int64) (value int64, ok bool) {
	plus, minus := int64(0), int64(0)
	for _, t := range p {
		v := max(t.Factor, -t.Factor)
		for name, power := range t.Powers {
			n, known := dims[name]
			if !known || n < 0 || power < 0 || power > maxPower {
				return 0, false
			}
			for range power {
				if n > 0 && v > math.MaxInt64/n {
					return 0, false
				}
				v *= n
			}
		}
		side := &plus
		if t.Factor < 0 {
			side = &minus
		}
		if v < 0 || *side > math.MaxInt64-v {
			return 0, false
		}
		*side += v
	}
	return plus - minus, plus >= minus
}

// maxPower is the largest power of a length in a size.
const maxPower = 8

// lengths returns the lengths of the dimension as a set, if it has several.
func (d Dim) lengths() (dimrange.Lengths, bool) {
	switch {
	case d.Values != nil:
		return dimrange.Lengths{Low: d.Values[0], Count: int64(len(d.Values)), Values: d.Values}, true
	case d.Low != nil && d.Step > 0:
		return dimrange.Lengths{Low: *d.Low, Step: d.Step, Count: (d.Value-*d.Low)/d.Step + 1}, true
	}
	return dimrange.Lengths{}, false
}

// String returns the lengths for which the model is planned, as the command line takes
// them: 1..8, 64..320:32, 1,2,4, or one length.
func (d Dim) String() string {
	if l, several := d.lengths(); several {
		return l.String()
	}
	return fmt.Sprint(d.Value)
}

// Has reports whether the model is planned for a length of the dimension.
func (d Dim) Has(n int64) bool {
	if l, several := d.lengths(); several {
		return l.Has(n)
	}
	return d.Follows || n == d.Value
}

// Box returns the dimensions with several lengths, ascending by name, and the lengths of
// each, ascending. It is nil without [Plan.Ranges].
func (p *Plan) Box() (names []string, lengths [][]int64) {
	if p.Ranges == nil {
		return nil, nil
	}
	for _, name := range slices.Sorted(maps.Keys(p.Dims)) {
		l, several := p.Dims[name].lengths()
		if !several {
			continue
		}
		list := make([]int64, l.Count)
		for i := range list {
			list[i] = l.At(int64(i))
		}
		names, lengths = append(names, name), append(lengths, list)
	}
	return names, lengths
}

// CheckPoint fails if the plan is not for these lengths of its dimensions, and names the
// first dimension that is outside. Others than those that have several lengths may be left
// out. Whether the model has valid shapes there is not always known without inference.
func (p *Plan) CheckPoint(dims map[string]int64) error {
	for _, name := range slices.Sorted(maps.Keys(p.Dims)) {
		d := p.Dims[name]
		l, several := d.lengths()
		n, given := dims[name]
		switch {
		case several && !given:
			return fmt.Errorf("dimension %q: expected one of %v, found no length", graph.Short(name), l)
		case given && !d.Has(n):
			return fmt.Errorf("dimension %q: expected one of %v, found %d", graph.Short(name), d, n)
		}
	}
	if p.Ranges == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(p.Ranges.Accepted)) {
		if a := p.Ranges.Accepted[name]; dims[name] < a.Low || dims[name] > a.High || (dims[name]-a.Low)%a.Step != 0 {
			return fmt.Errorf("dimension %q: the model takes %v, found %d", graph.Short(name), a, dims[name])
		}
	}
	return nil
}

// CheckRanges checks the lengths of dimensions and the ranges without the model, as
// [Plan.Check] does: indices are in range, the stacking is a permutation of the buffers of
// the arena, and the points are all combinations of the lengths.
func (p *Plan) CheckRanges() error {
	box := 1
	for _, name := range slices.Sorted(maps.Keys(p.Dims)) {
		d := p.Dims[name]
		bad := d.Low != nil && (*d.Low < 0 || *d.Low > d.Value || d.Step < 1 || (d.Value-*d.Low)%d.Step != 0 || d.Values != nil) ||
			d.Low == nil && d.Step != 0 ||
			d.Values != nil && (len(d.Values) == 0 || d.Values[0] < 0 || d.Values[len(d.Values)-1] != d.Value || !slices.IsSortedFunc(d.Values, strictly))
		if bad {
			return fmt.Errorf("dims: %q: expected low <= value in whole steps, or ascending values that end with value", graph.Short(name))
		}
		if l, several := d.lengths(); several {
			if p.Ranges == nil {
				return fmt.Errorf("dims: %q has several lengths: expected ranges", graph.Short(name))
			}
			if l.Count < 1 || l.Count > int64(maxPoints/box) {
				return fmt.Errorf("dims: expected at most %d points", maxPoints)
			}
			box *= int(l.Count)
		}
	}
	r := p.Ranges
	switch {
	case (p.Version == RangesVersion) != (r != nil):
		return fmt.Errorf("version %d: expected version %d with ranges, and %d without", p.Version, RangesVersion, Version)
	case r == nil:
		return nil
	case r.Points != box:
		return fmt.Errorf("ranges: expected %d points, all combinations of the lengths, found %d", box, r.Points)
	case r.Proof != ProofEnumerated && r.Proof != ProofBounded:
		return fmt.Errorf("ranges: proof %q is not known: expected %q or %q", graph.Short(r.Proof), ProofEnumerated, ProofBounded)
	case r.Proof == ProofEnumerated && r.Inferred != r.Points:
		return fmt.Errorf("ranges: expected all %d points to be inferred, found %d", r.Points, r.Inferred)
	case r.Proof == ProofBounded && (r.Inferred != len(r.Table) || r.Refused != 0 || r.Refusal != "" || len(r.Accepted) > 0):
		return fmt.Errorf("ranges: with bounded lengths, expected the points of the table to be inferred, %d, and none to be refused, found %d and %d", len(r.Table), r.Inferred, r.Refused)
	case r.Refused < 0 || r.Refused >= r.Inferred || r.OptimalPoints < 0 || r.OptimalPoints > r.Inferred-r.Refused:
		return fmt.Errorf("ranges: %d points: expected fewer that are refused, and no more optimal ones than are left, found %d and %d", r.Inferred, r.Refused, r.OptimalPoints)
	}
	for name, a := range r.Accepted {
		if _, known := p.Dims[name]; !known || a.Step < 1 || a.Low < 0 || a.High < a.Low {
			return fmt.Errorf("ranges: accepted: %q: expected a dimension, and lengths from low to high", graph.Short(name))
		}
	}
	if err := p.checkStacking(); err != nil {
		return err
	}
	for i, c := range r.Certificates {
		for _, step := range c.Steps {
			if step < 0 || step >= len(p.Steps) {
				return fmt.Errorf("ranges: certificate %d: expected steps of nodes below %d, found %d", i, len(p.Steps), step)
			}
		}
	}
	return p.checkSizes()
}

// maxPoints is the largest number of points of a plan.
const maxPoints = 1 << 40

// strictly compares so that a sorted list has no number twice.
func strictly(a, b int64) int {
	if a == b {
		return -1
	}
	return cmp.Compare(a, b)
}

// checkStacking: each buffer of the arena has one rank.
func (p *Plan) checkStacking() error {
	ranked := make([]bool, len(p.Buffers))
	arena := 0
	for i := range p.Buffers {
		if p.Buffers[i].Pool == Arena {
			arena++
		}
	}
	if len(p.Ranges.Stacking) != arena {
		return fmt.Errorf("ranges: stacking: expected the %d buffers of the arena, found %d", arena, len(p.Ranges.Stacking))
	}
	for rank, b := range p.Ranges.Stacking {
		if b < 0 || b >= len(p.Buffers) || p.Buffers[b].Pool != Arena || ranked[b] {
			return fmt.Errorf("ranges: stacking: rank %d: expected a buffer of the arena without a rank, found %d", rank, b)
		}
		ranked[b] = true
	}
	return nil
}

// checkSizes: the indices are in range, and the polynomials speak of the box's dimensions.
func (p *Plan) checkSizes() error {
	r := p.Ranges
	if len(r.SizeOf) != len(p.Buffers) {
		return fmt.Errorf("ranges: size_of: expected an entry for each of %d buffers, found %d", len(p.Buffers), len(r.SizeOf))
	}
	for b, i := range r.SizeOf {
		if i < -1 || i >= len(r.Sizes) || i >= 0 && p.Buffers[b].Pool != Arena {
			return fmt.Errorf("ranges: size_of: buffer %d: expected an index below %d, or -1, found %d", b, len(r.Sizes), i)
		}
	}
	for i, poly := range r.Sizes {
		for _, t := range poly {
			for name, power := range t.Powers {
				d := p.Dims[name]
				if _, several := d.lengths(); !several || power < 1 || power > maxPower {
					return fmt.Errorf("ranges: sizes: polynomial %d: expected powers from 1 to %d of dimensions with several lengths, found %q to the power of %d", i, maxPower, graph.Short(name), power)
				}
			}
		}
	}
	return nil
}
