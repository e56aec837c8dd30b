package passes

import (
	"context"
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/passes/internal/repeat"
)

// checkAliases refuses an unknown value.
func (o *Options) checkAliases() error {
	if o.Aliases < AliasesAuto || o.Aliases > AliasesOn {
		return fmt.Errorf("aliases: expected one of the values of Aliases, found %d", o.Aliases)
	}
	return nil
}

// mayAlias reports whether the plan may have aliases.
func (o *Options) mayAlias() bool {
	if o.Aliases != AliasesAuto {
		return o.Aliases == AliasesOn
	}
	return !o.NoViews && !o.excludes("aliases")
}

// aliasesAfter reports whether aliases are looked for in the graph that is planned in the end,
// even if it may have been changed for a smaller peak.
func (o *Options) aliasesAfter() bool {
	again := o.Limit != nil || o.ExtraPercent > 0
	return o.mayAlias() && (o.Aliases == AliasesOn || !again)
}

// mayAlias reports whether the plan of the present graph may have aliases. Those of slices of the loss
// alone seldom pay, as in graphs that are changed for a limit.
func (s *State) mayAlias() bool {
	return s.opt.mayAlias() && (s.opt.Aliases == AliasesOn || s.less.slices == nil || s.opt.Slices != SlicesOff)
}

// aliases lets results of Concat, Split, Slice and Gather lie in the bytes of their operands,
// and operands in the bytes of their results, if that makes the plan of the main graph
// better.
func aliases(ctx context.Context, s *State) error {
	r := s.now.Main
	if !s.opt.aliasesAfter() || !s.mayAlias() || r.Recast || r.Apart != nil || r == s.less.unshared || repeat.Swaps(r) { // another order would not fit transfers
		return nil
	}
	most := int64(math.MaxInt64)
	if l := s.less.Limit; l != nil {
		most = l.Bytes
	}
	t, err := s.trial().WithAliases(ctx, most, s.search().Silent(), func(format string, args ...any) {
		if s.opt.Aliases == AliasesOn { // else nobody asked
			s.Warn("aliases: "+format, args...)
		}
	})
	if t != nil {
		s.takeAliases(t)
	}
	return err
}

// takeAliases makes a plan with aliases the present one.
func (s *State) takeAliases(t *planner.Trial) {
	if b := s.less.kept; b != nil && b.Before == s.now.Main {
		b.InFile()
	}
	s.take(t)
}
