package ilp

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

// liar is a solver that gives one answer to everything.
type liar struct{ Answer }

func (liar) Identity() (name, version string) { return "liar", "1.0" }

func (l liar) Solve(context.Context, *Program, Options) (Answer, error) { return l.Answer, nil }

func (l liar) SolvePacking(context.Context, *Packing, Options) (Answer, error) {
	return l.Answer, nil
}

// TestWrongAnswers: a solver is not believed. The program is min 3a + 2b, 2a + b >= 5, with
// a and b from 0 to 4: the optimum is 8, at a = 2, b = 1.
func TestWrongAnswers(t *testing.T) {
	p := &Program{Name: "p"}
	a := p.Add(Column{Name: "a", Upper: 4, Integer: true, Objective: 3})
	b := p.Add(Column{Name: "b", Upper: 4, Integer: true, Objective: 2})
	p.Rows = []Row{{Name: "enough", Lower: 5, Upper: Unbounded, Terms: []Term{{a, 2}, {b, 1}}}}
	none := math.Inf(-1)
	seven := int64(7)
	for _, c := range []struct {
		name   string
		start  []int64
		answer Answer
		opt    Options
		want   Result
		wrong  string
	}{
		{name: "true", answer: Answer{Status: Optimal, Values: []float64{2, 1}, Value: 8, Bound: 8}, want: Result{Status: Optimal, Value: 8}},
		{name: "nearly integers", answer: Answer{Status: Optimal, Values: []float64{1.9999999, 1.0000001}, Value: 8.0000003, Bound: 7.9999999}, want: Result{Status: Optimal, Value: 8}},
		{name: "not proven", answer: Answer{Status: Feasible, Values: []float64{3, 0}, Value: 9, Bound: 6.5, Ended: true}, want: Result{Status: Feasible, Value: 9, Ended: true}},
		{name: "worse than the start", start: []int64{2, 1}, answer: Answer{Status: Feasible, Values: []float64{3, 0}, Value: 9, Bound: none}, want: Result{Status: Feasible, Value: 8}},
		{name: "the bound meets the start", start: []int64{2, 1}, answer: Answer{Status: Unknown, Bound: 7.2}, want: Result{Status: Optimal, Value: 8}},
		{name: "our bound meets its solution", answer: Answer{Status: Feasible, Values: []float64{2, 1}, Value: 8, Bound: none}, want: Result{Status: Feasible, Value: 8}},
		{name: "a row", answer: Answer{Status: Optimal, Values: []float64{2, 0}, Value: 6, Bound: 6}, wrong: "row enough: expected at least 5, found 4"},
		{name: "a column", answer: Answer{Status: Optimal, Values: []float64{5, 0}, Value: 15, Bound: 6}, wrong: "column a: expected 0 to 4, found 5"},
		{name: "fractions", answer: Answer{Status: Optimal, Values: []float64{2.4, 0.4}, Value: 8, Bound: 8}, wrong: "row enough: expected at least 5, found 4"},
		{name: "no number", answer: Answer{Status: Optimal, Values: []float64{math.NaN(), 1}, Value: 8, Bound: 8}, wrong: "value 0 is NaN"},
		{name: "too few values", answer: Answer{Status: Optimal, Values: []float64{2}, Value: 8, Bound: 8}, wrong: "expected 2 values, found 1"},
		{name: "the objective is less", answer: Answer{Status: Optimal, Values: []float64{2, 1}, Value: 7, Bound: 7}, wrong: "its solution has the value 8, and it says 7"},
		{name: "the objective is more", answer: Answer{Status: Optimal, Values: []float64{2, 1}, Value: 9, Bound: 9}, wrong: "its solution has the value 8, and it says 9"},
		{name: "a bound above its solution", answer: Answer{Status: Feasible, Values: []float64{2, 1}, Value: 8, Bound: 9}, wrong: "no solution is below 9, and one has the value 8"},
		{name: "a bound above the start", start: []int64{2, 1}, answer: Answer{Status: Unknown, Bound: 8.5}, wrong: "no solution is below 9, and one has the value 8"},
		{name: "a bound that is no number", answer: Answer{Status: Feasible, Values: []float64{2, 1}, Value: 8, Bound: math.NaN()}, wrong: "its bound is no number"},
		{name: "optimal without a solution", answer: Answer{Status: Optimal, Bound: 8}, wrong: "gives none"},
		{name: "optimal without a bound", answer: Answer{Status: Optimal, Values: []float64{2, 1}, Value: 8, Bound: none}, wrong: "gives no bound"},
		{name: "optimal, and its bound is less", answer: Answer{Status: Optimal, Values: []float64{2, 1}, Value: 8, Bound: 6}, wrong: "its bound is 6"},
		{name: "optimal, and not as good as the start", start: []int64{2, 1}, answer: Answer{Status: Optimal, Values: []float64{3, 0}, Value: 9, Bound: 9}, wrong: "no solution is below 9, and one has the value 8"},
		{name: "infeasible", start: []int64{2, 1}, answer: Answer{Status: Infeasible}, wrong: "there is no solution, and one has the value 8"},
		{name: "infeasible, and nothing says otherwise", answer: Answer{Status: Infeasible}, want: Result{Status: Infeasible}},
		{name: "completed", opt: Options{Complete: func(x []int64) ([]int64, error) { return []int64{x[0], 5 - 2*x[0]}, nil }, Bound: &seven}, answer: Answer{Status: Feasible, Values: []float64{2, 3.7}, Value: 13.4, Bound: 6}, want: Result{Status: Feasible, Value: 8}},
		{name: "cannot be completed", opt: Options{Complete: func([]int64) ([]int64, error) { return nil, errors.New("a runs twice") }}, answer: Answer{Status: Feasible, Values: []float64{2, 1}, Value: 8, Bound: 6}, wrong: "a runs twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.opt.Start = c.start
			r, err := Solve(t.Context(), liar{c.answer}, p, c.opt)
			if wrong := (*WrongError)(nil); c.wrong != "" {
				if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.wrong) || !strings.HasPrefix(err.Error(), "liar 1.0: wrong answer: ") {
					t.Errorf("expected the error %q, found %v", c.wrong, err)
				}
				return
			}
			if err != nil || r.Status != c.want.Status || r.Value != c.want.Value || r.Ended != c.want.Ended {
				t.Errorf("expected %+v, found %+v, %v", c.want, r, err)
			}
			if r.Bound != nil && *r.Bound > r.Value {
				t.Errorf("the bound is %d", *r.Bound)
			}
		})
	}
}

// TestPackingValue: two rectangles that share a step may not overlap.
func TestPackingValue(t *testing.T) {
	p := &Packing{Most: 12, Rectangles: []Rectangle{
		{First: 0, Last: 2, Size: 4, Upper: 8, Align: 4},
		{First: 2, Last: 3, Size: 3, Upper: 9, Align: 1},
		{First: 3, Last: 5, Size: 4, Lower: 4, Upper: 4, Align: 1},
	}}
	for _, c := range []struct {
		offsets []int64
		want    int64
		err     string
	}{
		{offsets: []int64{4, 0, 4}, want: 8},
		{offsets: []int64{0, 8, 4}, want: 11},
		{offsets: []int64{0, 4, 4}, err: "rectangles 1 and 2 overlap"},
		{offsets: []int64{0, 3, 4}, err: "rectangles 0 and 1 overlap"},
		{offsets: []int64{2, 8, 4}, err: "a multiple of 4, found 2"},
		{offsets: []int64{0, 8, 0}, err: "expected an offset of 4 to 4"},
		{offsets: []int64{0, 10, 4}, err: "expected an offset of 0 to 9"},
		{offsets: []int64{0}, err: "expected 3 offsets, found 1"},
	} {
		values := make([]float64, len(c.offsets))
		for i, off := range c.offsets {
			values[i] = float64(off)
		}
		r, err := SolvePacking(t.Context(), liar{Answer{Status: Feasible, Values: values, Value: float64(c.want), Bound: math.Inf(-1)}}, p, Options{})
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v: expected the error %q, found %v", c.offsets, c.err, err)
			}
			continue
		}
		if err != nil || r.Value != c.want || !slices.Equal(r.Values, c.offsets) {
			t.Errorf("%v: expected %d, found %+v, %v", c.offsets, c.want, r, err)
		}
	}
}
