package schedule

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// countdown is a context that ends after it was asked some times whether it had:
// a time limit without a clock.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// Wherever the context ends, the order is valid, the bound holds and is proven by
// what the certificate says, and both are what was told last or better.
func TestSolveEnds(t *testing.T) {
	errEnough := errors.New("enough")
	for name, p := range map[string]*Problem{"layered": tangled(60), "transformer": transformer(300), "recurrent": recurrent(300, sgd)} {
		whole, err := Solve(p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		ended := 0
		for left := 0; ; left = left*3/2 + 1 {
			cancelled, cancel := context.WithCancelCause(t.Context())
			cancel(errEnough)
			ctx := &countdown{cancelled, left}
			bound, peak := int64(0), whole.ProgramPeak
			r, err := Solve(p, Options{Context: ctx, Progress: func(b, k int64) {
				if b < bound || k > peak || b == bound && k == peak && b > 0 {
					t.Errorf("%s, %d looks: told %d, %d after %d, %d", name, left, b, k, bound, peak)
				}
				bound, peak = b, k
			}})
			if err != nil {
				t.Fatal(err)
			}
			e, err := p.Evaluate(r.Order)
			if err != nil || e.Peak != r.Evaluation.Peak || len(r.Orders) == 0 || !slices.Equal(r.Orders[0], r.Order) {
				t.Fatalf("%s, %d looks: %v: an order of peak %d, said to be %d", name, left, err, e.Peak, r.Evaluation.Peak)
			}
			if r.Bound <= 0 || r.Bound > whole.Evaluation.Peak || r.Bound < bound || r.Evaluation.Peak > peak {
				t.Fatalf("%s, %d looks: bound %d, peak %d; told %d, %d; without end %d, %d", name, left, r.Bound, r.Evaluation.Peak, bound, peak, whole.Bound, whole.Evaluation.Peak)
			}
			if c := r.Certificates[0]; c.Kind == KindCut && CutBound(p, c.Nodes[0]) < r.Bound {
				t.Fatalf("%s, %d looks: node %d proves %d, not %d", name, left, c.Nodes[0], CutBound(p, c.Nodes[0]), r.Bound)
			}
			if r.Ended == nil {
				if r.Bound != whole.Bound || r.Evaluation.Peak != whole.Evaluation.Peak {
					t.Fatalf("%s, %d looks: not ended, bound %d, peak %d; want %d, %d", name, left, r.Bound, r.Evaluation.Peak, whole.Bound, whole.Evaluation.Peak)
				}
				break
			}
			if !errors.Is(r.Ended, errEnough) {
				t.Fatalf("%s, %d looks: ended by %v", name, left, r.Ended)
			}
			ended++
		}
		if ended < 2 {
			t.Errorf("%s: ended %d times", name, ended)
		}
		t.Logf("%s: ended at %d points", name, ended)
	}
}
