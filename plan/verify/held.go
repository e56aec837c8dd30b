package verify

import (
	"fmt"

	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
)

// Every problem on which a verdict rests is held to what the core expects of its input: that of
// the main graph and of each body when their buffers are checked, those of orders and bounds
// here. Nothing else in this package asks the core for either.

// sound holds a plan that seems valid to what the core expects of its input: a problem that
// contradicts itself is a fault of the provers, and no verdict may rest on it.
func (v *verifier) sound(s *scope) {
	if v.err != nil || len(v.Violations) > 0 || v.sums.Overflow {
		return
	}
	if err := s.Check(); err != nil {
		v.err = fmt.Errorf("%swhat was to be proven contradicts itself, a fault of the verifier: %w", s.where, err)
	}
}

// bounds returns the bounds of the scope's problem; nil if that contradicts itself, or a sum of
// sizes overflows.
func (s *scope) bounds(budget int64) *core.Bounds {
	if s.v.sound(s); s.v.err != nil {
		return nil
	}
	return core.NewBounds(&s.Problem, budget)
}

// simulate returns the loads of an order of the scope's problem and their peak; none if that
// contradicts itself.
func (s *scope) simulate(order []int32) (loads []int64, peak int64) {
	if s.v.sound(s); s.v.err != nil {
		return nil, 0
	}
	return s.Simulate(order)
}
