package ilp

import (
	"math"
	"strings"
	"testing"
)

// TestValue holds solutions against a program of two columns, checked by hand.
func TestValue(t *testing.T) {
	p := Program{Name: "p"}
	x := p.Add(Column{Name: "x", Upper: 4, Integer: true, Objective: 3})
	y := p.Add(Column{Name: "y", Lower: -Unbounded, Upper: Unbounded, Objective: -1})
	p.Rows = []Row{
		{Name: "sum", Lower: 2, Upper: Unbounded, Terms: []Term{{x, 1}, {y, 1}}},
		{Name: "difference", Lower: -Unbounded, Upper: 1, Terms: []Term{{y, 1}, {x, -2}}},
	}
	for _, c := range []struct {
		x    []int64
		want int64
		err  string
	}{
		{x: []int64{1, 3}, want: 0},
		{x: []int64{4, 9}, want: 3},
		{x: []int64{5, 0}, err: "column x: expected 0 to 4, found 5"},
		{x: []int64{0, 1}, err: "row sum: expected at least 2, found 1"},
		{x: []int64{1, 4}, err: "row difference: expected at most 1, found 2"},
		{x: []int64{4, math.MinInt64}, err: "column y: expected any value"},
		{x: []int64{4, math.MaxInt64 - 1}, err: "row sum: expected a sum that fits in 64 bits"},
		{x: []int64{1}, err: "program p: expected 2 values, found 1"},
	} {
		got, err := p.Value(c.x)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v: expected the error %q, found %v", c.x, c.err, err)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%v: expected %d, found %d (%v)", c.x, c.want, got, err)
		}
	}
}
