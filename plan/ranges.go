package plan

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

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
	// with it, or 0; one of 0 bytes holds up nothing. With several pools ([Plan.Tiers]), it ranks
	// the buffers of all, and each lies on top of those of its own pool. Buffers of which each lies right behind
	// the one before it ([Plan.Behind]) stand in a row. The first of them has the lowest
	// offset at which none of them lies below the end of one before the row that is live
	// with it.
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

// SubgraphRanges is the stacking of a body: at any point, the offsets of its buffers follow
// from it as those of the main graph do from [Ranges.Stacking]. The end of the last buffer
// is the body's workspace there; a node has that of the largest of its bodies.
type SubgraphRanges struct {
	Stacking []int `json:"stacking"` // of the buffers of pool workspace, from below, as indices into Subgraph.Buffers
	SizeOf   []int `json:"size_of"`  // by buffer: the index of its size in Ranges.Sizes, or -1
	// Certificates has the sets of nodes of the body that prove lower bounds of its
	// workspace, from which those of the points follow. Their steps are the body's.
	Certificates []RangeCertificate `json:"certificates"`
}

// Graphs lists a graph and the bodies within it in the order of [Plan.Subgraphs]: the graph
// itself, then each body, followed by those within it.
func Graphs(g *graph.Graph) []*graph.Graph {
	list := []*graph.Graph{g}
	for _, n := range g.Nodes {
		for _, a := range n.Bodies() {
			for _, body := range a.All() {
				list = append(list, Graphs(body)...)
			}
		}
	}
	return list
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
// [Plan.Check] does. Indices must be in range, the stacking a permutation of the buffers of
// the arena, and the points all combinations of the lengths.
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
		return p.checkNoStackings()
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
	layers, err := p.layers()
	if err != nil {
		return err
	}
	for i := range layers {
		if err := layers[i].checkStacking(); err != nil {
			return err
		}
		if err := layers[i].checkSizes(len(r.Sizes)); err != nil {
			return err
		}
		if err := layers[i].checkCertificates(); err != nil {
			return err
		}
	}
	return r.checkSizes(p.Dims)
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

// layer is the main graph or a body, as far as ranges are concerned.
type layer struct {
	where            string
	pools            []string // of the buffers that are stacked, each pool for itself
	buffers          []Buffer
	steps            int
	stacking, sizeOf []int
	behind           []int // by buffer: the one right behind it, or -1; nil: none has any
	certificates     []RangeCertificate
}

// layers lists the main graph and the bodies, with their stackings.
func (p *Plan) layers() ([]layer, error) {
	list := []layer{{"ranges: ", p.stacked(), p.Buffers, len(p.Steps), p.Ranges.Stacking, p.Ranges.SizeOf, nil, p.Ranges.Certificates}}
	if len(p.Spans) > 0 {
		var err error
		if list[0].behind, err = p.Behind(); err != nil {
			return nil, err
		}
	}
	for k := range p.Subgraphs {
		s := &p.Subgraphs[k]
		where := fmt.Sprintf("subgraph %d: ranges: ", k)
		steps := len(p.Steps)
		if s.Parent != nil {
			if *s.Parent < 0 || *s.Parent >= k {
				return nil, fmt.Errorf("%sexpected a parent below %d, found %d", where, k, *s.Parent)
			}
			steps = len(p.Subgraphs[*s.Parent].Steps)
		}
		switch {
		case s.Ranges == nil:
			return nil, fmt.Errorf("%sexpected a stacking, found none", where)
		case s.Step < 0 || s.Step >= steps:
			return nil, fmt.Errorf("%sexpected a step below %d, found %d", where, steps, s.Step)
		}
		list = append(list, layer{where, []string{Workspace}, s.Buffers, len(s.Steps), s.Ranges.Stacking, s.Ranges.SizeOf, nil, s.Ranges.Certificates})
	}
	return list, nil
}

// stacked returns the pools whose buffers [Ranges.Stacking] ranks.
func (p *Plan) stacked() (names []string) {
	for _, t := range p.Tiers() {
		names = append(names, t.Name)
	}
	if names == nil {
		return []string{Arena}
	}
	return names
}

// memory returns the index of the pool in which buffer b is stacked, or -1.
func (l *layer) memory(b int) int { return slices.Index(l.pools, l.buffers[b].Pool) }

// checkNoStackings: without ranges, no body has a stacking.
func (p *Plan) checkNoStackings() error {
	for k := range p.Subgraphs {
		if p.Subgraphs[k].Ranges != nil {
			return fmt.Errorf("subgraph %d: has a stacking: expected ranges", k)
		}
	}
	return nil
}

// chained reports whether the buffer of a rank lies right behind that of the rank before.
func (l *layer) chained(rank int) bool {
	return l.behind != nil && rank > 0 && rank < len(l.stacking) && l.behind[l.stacking[rank-1]] == l.stacking[rank]
}

// checkStacking: each buffer of the pool has one rank, and one that lies right behind
// another the rank behind it.
func (l *layer) checkStacking() error {
	ranked := make([]bool, len(l.buffers))
	count := 0
	for i := range l.buffers {
		if l.memory(i) >= 0 {
			count++
		}
	}
	if len(l.stacking) != count {
		return fmt.Errorf("%sstacking: expected the %d buffers of the %s, found %d", l.where, count, strings.Join(l.pools, ", "), len(l.stacking))
	}
	for rank, b := range l.stacking {
		if b < 0 || b >= len(l.buffers) || l.memory(b) < 0 || ranked[b] {
			return fmt.Errorf("%sstacking: rank %d: expected a buffer of the %s without a rank, found %d", l.where, rank, strings.Join(l.pools, ", "), b)
		}
		ranked[b] = true
		buf := &l.buffers[b]
		if buf.Bytes < 0 || buf.First < 0 || buf.Last < buf.First || buf.Last >= max(1, l.steps) {
			return fmt.Errorf("%sbuffer %d: expected a size and a lifetime within steps 0-%d, found %d bytes, %d-%d", l.where, b, max(1, l.steps)-1, buf.Bytes, buf.First, buf.Last)
		}
		if l.behind != nil && l.behind[b] >= 0 && !l.chained(rank+1) {
			return fmt.Errorf("%sstacking: rank %d: expected buffer %d, which lies right behind buffer %d", l.where, rank+1, l.behind[b], b)
		}
	}
	return nil
}

// checkCertificates: their steps are those of nodes.
func (l *layer) checkCertificates() error {
	for i, c := range l.certificates {
		for _, step := range c.Steps {
			if step < 0 || step >= l.steps {
				return fmt.Errorf("%scertificate %d: expected steps of nodes below %d, found %d", l.where, i, l.steps, step)
			}
		}
	}
	return nil
}

// checkSizes: the indices are in range.
func (l *layer) checkSizes(sizes int) error {
	if len(l.sizeOf) != len(l.buffers) {
		return fmt.Errorf("%ssize_of: expected an entry for each of %d buffers, found %d", l.where, len(l.buffers), len(l.sizeOf))
	}
	for b, i := range l.sizeOf {
		if i < -1 || i >= sizes || i >= 0 && (l.memory(b) < 0 || l.buffers[b].Node != nil) {
			return fmt.Errorf("%ssize_of: buffer %d: expected an index below %d, or -1, found %d", l.where, b, sizes, i)
		}
	}
	return nil
}

// checkSizes: the polynomials speak of the box's dimensions.
func (r *Ranges) checkSizes(dims map[string]Dim) error {
	for i, poly := range r.Sizes {
		for _, t := range poly {
			for name, power := range t.Powers {
				d := dims[name]
				if _, several := d.lengths(); !several || power < 1 || power > maxPower {
					return fmt.Errorf("ranges: sizes: polynomial %d: expected powers from 1 to %d of dimensions with several lengths, found %q to the power of %d", i, maxPower, graph.Short(name), power)
				}
			}
		}
	}
	return nil
}
