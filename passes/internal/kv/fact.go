package kv

import "math"

// kind says how a tensor depends on the number of past tokens.
type kind uint8

const (
	plain    kind = iota // it has the elements that it had
	position             // integers that are known, and depend on the past
	past                 // a cache that enters
	keys                 // one axis has an element for each token so far, and a tail
)

// fact is what is known of a tensor of the rewritten graph.
type fact struct {
	kind kind
	axis int  // of keys: the axis with the tail
	tail tail // of keys
	// pure: the elements follow from constants and lengths alone. Those of a tail are then
	// the ones that the given decoder computes when its caches are full.
	pure bool
}

// tail is what is known of the elements after those of the tokens so far.
type tail struct {
	kind  tailKind
	value float64 // of all elements, if they are alike
}

type tailKind uint8

const (
	anything tailKind = iota // finite numbers, of an earlier run or computed from some
	indices                  // each element is its own index
	alike                    // all elements have the same value
	hidden                   // so small, or -∞, that a Softmax beside a usual score gives 0
)

// hiddenBelow is the largest number that a mask adds to a score to hide it. exp(-10000) is
// 0 in every floating-point type, and transformers' oldest masks add -10000.
const hiddenBelow = -1e4

// hides reports whether a tail hides scores.
func (t tail) hides() bool {
	return t.kind == hidden || t.kind == alike && t.value <= hiddenBelow
}

// is reports whether all elements have a value.
func (t tail) is(v float64) bool { return t.kind == alike && t.value == v }

func of(v float64) tail { return tail{kind: alike, value: v} }

func truth(b bool) tail {
	if b {
		return of(1)
	}
	return of(0)
}

// operand is an input of an elementwise operator.
type operand struct {
	tail            // of keys; else alike if all elements are known and the same
	keys   bool     // it has a tail
	bounds [2]int64 // of a position: its elements are past + a number between these
	at     bool     // it is such a position
}

// finite reports whether the operand has no infinite element where the tail is.
func (o *operand) finite() bool { return o.kind != alike || !math.IsInf(o.value, 0) }
