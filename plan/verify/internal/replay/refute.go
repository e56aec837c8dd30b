// Package replay repeats the search behind a lower bound, by another method than the planner's:
// it asks whether any order of a [core.Problem] has a peak of at most some bytes.
//
//	replay.go   the search, and the lemma that spares it most states
//	prune.go    precedence that a limit forces, and states that are dead
//	cut.go      the states of least live bytes: minimum cuts
package replay

import (
	"fmt"

	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
)

// Verdict is the answer of a replay.
type Verdict int8

// The verdicts.
const (
	NoOrder  Verdict = iota // no order keeps the limit
	AnOrder                 // an order keeps the limit
	TooMuch                 // the limit on work was reached
	TooLarge                // the sizes are too large: more than MaxBytes together
)

// Result is what a replay found.
type Result struct {
	Verdict
	Order  []int32 // AnOrder: the order
	States int     // explored
	Why    string  // TooMuch: how much work was done
}

// MaxBytes is the largest sum of the sizes of a problem that is searched.
const MaxBytes = maxReplayBytes

// Below asks whether any order has a peak below some bytes. Where that suffices, it leaves out
// small storages: if no order keeps the limit without them, none keeps it with them.
func Below(p *core.Problem, b *core.Bounds, bytes int64) Result {
	if b.Total > MaxBytes {
		return Result{Verdict: TooLarge}
	}
	r := newReplay(p, b, 0)
	found := TooMuch
	if least := r.negligible(bytes - 1); least > 0 {
		coarse := newReplay(p, b, least)
		if found = coarse.run(bytes - 1); found == NoOrder {
			r = coarse
		}
	}
	if found != NoOrder {
		found = r.run(bytes - 1)
	}
	switch found {
	case AnOrder:
		return Result{Verdict: found, Order: r.order, States: r.states}
	case TooMuch:
		return Result{Verdict: found, States: r.states, Why: r.tooMany()}
	}
	return Result{Verdict: found, States: r.states}
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
