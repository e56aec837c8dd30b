package plan

import (
	"cmp"
	"maps"
	"slices"
)

// RangeChange is a point of the ranges of two plans at which their figures differ.
type RangeChange struct {
	Dims   map[string]int64 `json:"dims"`
	Before RangePoint       `json:"before"`
	After  RangePoint       `json:"after"`
}

// commonPoints returns the figures of both plans at the points of their tables that are in
// the ranges of both, ascending by the old plan's arena. Points whose figures a plan gives
// neither in its table nor by its polynomials are left out. It is nil unless both plans
// have ranges of the same dimensions.
func commonPoints(a, b *Plan) []RangeChange {
	if a.Ranges == nil || b.Ranges == nil {
		return nil
	}
	x, _ := a.Box()
	y, _ := b.Box()
	if !slices.Equal(x, y) {
		return nil
	}
	var list []RangeChange
	for _, row := range append(slices.Clone(a.Ranges.Table), b.Ranges.Table...) {
		if slices.ContainsFunc(list, func(c RangeChange) bool { return maps.Equal(c.Dims, row.Dims) }) {
			continue
		}
		before, in := a.pointAt(row.Dims)
		after, both := b.pointAt(row.Dims)
		if in && both {
			list = append(list, RangeChange{row.Dims, before, after})
		}
	}
	slices.SortStableFunc(list, func(p, q RangeChange) int { return cmp.Compare(p.Before.ArenaBytes, q.Before.ArenaBytes) })
	return list
}

// pointAt returns the figures of a point, from the table or by the polynomials.
func (p *Plan) pointAt(dims map[string]int64) (RangePoint, bool) {
	for _, row := range p.Ranges.Table {
		if maps.Equal(row.Dims, dims) {
			return row, true
		}
	}
	at, err := p.At(dims, nil)
	if err != nil {
		return RangePoint{}, false
	}
	return RangePoint{dims, at.Summary.ArenaBytes, at.Summary.PeakBytes, at.Summary.LowerBoundBytes}, true
}

// rangeChanges lists the points at which arena, peak or bound differ.
func rangeChanges(a, b *Plan) []RangeChange {
	return slices.DeleteFunc(commonPoints(a, b), func(c RangeChange) bool {
		return c.Before.ArenaBytes == c.After.ArenaBytes && c.Before.PeakBytes == c.After.PeakBytes && c.Before.LowerBoundBytes == c.After.LowerBoundBytes
	})
}

// rangeGates compares two plans for ranges at the points of both tables. Each figure has one
// gate: at the point at which it grew most, for its size.
func rangeGates(before, after *Plan, growth float64) []Gate {
	var gates []Gate
	points := commonPoints(before, after)
	for _, f := range []struct {
		name string
		of   func(p *Plan, r RangePoint) int64
	}{
		{"peak", func(_ *Plan, r RangePoint) int64 { return r.PeakBytes }},
		{"arena", func(_ *Plan, r RangePoint) int64 { return r.ArenaBytes }},
		{"total", func(p *Plan, r RangePoint) int64 { return r.ArenaBytes + p.Summary.ResidentBytes }},
	} {
		worst, most := -1, 0.0
		for i, c := range points {
			if r := float64(f.of(after, c.After)) / float64(max(1, f.of(before, c.Before))); worst < 0 || r > most {
				worst, most = i, r
			}
		}
		if worst < 0 {
			continue
		}
		c := points[worst]
		was := f.of(before, c.Before)
		g := Gate{Figure: f.name, Point: c.Dims, Bytes: f.of(after, c.After), Most: grown(was, growth), Baseline: &was}
		g.Met = g.Bytes <= g.Most
		gates = append(gates, g)
	}
	return gates
}
