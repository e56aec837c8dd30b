package passes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// A plan that the verifier refuses is a fault of onnxmem. The model is then planned once
// more without the feature that is likely to be behind it, and so on, until a plan is valid.
// A feature makes a plan better; what the caller demands of any plan (a limit, pools,
// states, a capacity, ranges, the sharing of a runtime, an order) is never given up.

// feature is something that planning may do without.
type feature struct {
	name  string
	codes []string // of violations that it is the first to be suspected of
	alone bool     // it has nothing to do with any others
	// used reports whether the refused plan has it.
	used func(*State) bool
	// leave turns it off. It returns false if the caller demands it, or demands what there
	// is no way to have without.
	leave func(*Options) bool
}

// features are in the order in which they are given up if the violation names none. What is
// special, and touches little else, comes first.
var features = []feature{
	{
		name: "the solver's answers", codes: []string{verify.CodeCertificate}, alone: true,
		used:  func(s *State) bool { return s.opt.Solver != nil },
		leave: func(o *Options) bool { o.Solver = nil; return true },
	},
	{
		name: "regions inside of slices", codes: []string{verify.CodeSlices},
		used: func(s *State) bool {
			return s.plan.Slices != nil && slices.ContainsFunc(s.plan.Slices.Regions, func(r plan.SlicedRegion) bool { return r.Within != nil })
		},
		leave: func(o *Options) bool { o.noInside = true; return true },
	},
	{
		name: "compact slices", codes: []string{verify.CodeSlices},
		used:  func(s *State) bool { return s.less.slices != nil && s.less.slices.Calls() },
		leave: func(o *Options) bool { o.Compact = false; return true },
	},
	{
		name: "sums in slices", codes: []string{verify.CodeSlices},
		used:  func(s *State) bool { return s.plan.Slices != nil && s.opt.Slices == SlicesAny },
		leave: func(o *Options) bool { o.Slices = min(o.Slices, SlicesExact); return true },
	},
	{
		name: "the loss in slices", codes: []string{verify.CodeSlices},
		used:  func(s *State) bool { return s.plan.Slices != nil && s.opt.Slices == SlicesOff },
		leave: func(o *Options) bool { o.Disable = append(slices.Clip(o.Disable), "loss"); return true },
	},
	{
		name: "slices", codes: []string{verify.CodeSlices},
		used:  func(s *State) bool { return s.plan.Slices != nil },
		leave: leaveSlices,
	},
	{
		name: "copies between pools", codes: []string{verify.CodeSwap, verify.CodeTraffic},
		used:  func(s *State) bool { return s.less.moved != nil },
		leave: func(o *Options) bool { o.noMoves = true; return true },
	},
	{
		name: "swaps", codes: []string{verify.CodeSwap, verify.CodeLimit},
		used: func(s *State) bool {
			return s.less.kept != nil && s.plan.Summary.Limited != nil && s.plan.Summary.Limited.SwappedBuffers > 0
		},
		leave: leaveSwaps,
	},
	{
		name: "casts that run again", codes: []string{verify.CodeRepetition, verify.CodeLimit, verify.CodeCertificate},
		used:  func(s *State) bool { return s.now.Main != nil && s.now.Main.Recast },
		leave: func(o *Options) bool { o.Disable = append(slices.Clip(o.Disable), "recast"); return true },
	},
	{
		name: "extra time", codes: []string{verify.CodeRepetition, verify.CodeLimit},
		used:  func(s *State) bool { return s.opt.Limit == nil && s.opt.ExtraPercent > 0 },
		leave: func(o *Options) bool { o.ExtraPercent = 0; return leaveSlices(o) },
	},
	{
		name: "aliases", codes: []string{verify.CodeAlias, verify.CodeCertificate, verify.CodeRange, verify.CodeStacking, verify.CodeTable},
		used:  func(s *State) bool { return s.plan.Sharing.Aliases },
		leave: func(o *Options) bool { o.Aliases = AliasesOff; return true },
	},
	{
		name: "the proof of its bound", codes: []string{verify.CodeCertificate}, alone: true,
		used:  func(s *State) bool { return len(s.plan.Certificates) > 0 && s.plan.Ranges == nil },
		leave: func(o *Options) bool { o.noProof = true; return true },
	},
	{
		name: "folded constants", codes: []string{verify.CodeFolded, verify.CodeProgram},
		used:  func(s *State) bool { return s.plan.Folded != nil },
		leave: func(o *Options) bool { o.Fold = FoldOff; return true },
	},
	{
		name: "in-place results", codes: []string{verify.CodeInplace},
		used:  func(s *State) bool { return !s.opt.NoInplace },
		leave: func(o *Options) bool { o.NoInplace = true; return true },
	},
	{
		name: "views", codes: []string{verify.CodeView},
		used: func(s *State) bool { return !s.opt.NoViews },
		leave: func(o *Options) bool { // aliases need views
			o.NoViews, o.Aliases = true, AliasesOff
			return true
		},
	},
}

// leaveSlices turns slices off, unless the limit is to be met by them alone.
func leaveSlices(o *Options) bool {
	if o.NoRecompute && o.Limit != nil {
		return false
	}
	if o.NoRecompute { // the smallest peak by slices alone is that of the best order
		o.ExtraPercent = 0
	}
	o.Slices, o.Compact, o.NoRecompute = SlicesOff, false, false
	return true
}

// leaveSwaps turns swaps off, unless the limit is to be met by them alone.
func leaveSwaps(o *Options) bool {
	if o.Host == nil || o.Host.NoRecompute {
		return false
	}
	o.Host = nil
	return true
}

// giveUp plans a model again, without one feature after another, after the verifier has
// refused the plan of a state. It returns the first state whose plan is valid, and what that
// is without.
//
// A feature stays given up if another violation comes first without it. Those that change
// nothing by themselves are given up together in the end.
func giveUp(ctx context.Context, s *State, r *verify.Report, times map[string]time.Duration) (*State, []GivenUp, error) {
	opt, from := s.asked, s.origin.untouched
	refused := &RefusedError{Violations: r.Violations, More: r.More}
	var gone, idle []GivenUp // what opt is without; what made no difference
	var together []*feature
	tried := map[string]bool{}
	for f := suspect(s, r, tried); f != nil; f = suspect(s, r, tried) {
		tried[f.name] = true
		without := opt
		if !f.leave(&without) {
			refused.note(f, "what was asked for needs them")
			continue
		}
		why := GivenUp{f.name, r.Violations[0], len(r.Violations) - 1 + r.More}
		t, found, err := again(ctx, s.given, from, without, times)
		switch {
		case ctx.Err() != nil || errors.Is(err, mapped.ErrChanged):
			return nil, nil, err
		case err != nil:
			refused.note(f, err.Error())
		case found == nil || found.Valid:
			return t, append(gone, why), nil
		case found.Violations[0].Code == r.Violations[0].Code:
			refused.note(f, found.Violations[0].Message)
			together, idle = append(together, f), append(idle, why)
		default:
			refused.note(f, found.Violations[0].Message)
			opt, s, r, gone = without, t, found, append(gone, why)
		}
	}
	if len(together) < 2 {
		return nil, nil, refused
	}
	for _, f := range together {
		if !f.leave(&opt) {
			return nil, nil, refused
		}
	}
	t, found, err := again(ctx, s.given, from, opt, times)
	switch {
	case ctx.Err() != nil || errors.Is(err, mapped.ErrChanged):
		return nil, nil, err
	case err == nil && (found == nil || found.Valid):
		return t, append(gone, idle...), nil
	}
	return nil, nil, refused
}

// again plans a model with other options. m is the value that has the planned graph in the
// end, and from a copy of what it was.
func again(ctx context.Context, m, from *graph.Model, opt Options, times map[string]time.Duration) (*State, *verify.Report, error) {
	*m = *copyOf(from)
	s, err := newState(m, opt)
	if err != nil {
		return nil, nil, err
	}
	s.origin.untouched = copyOf(from)
	if err := s.runAll(ctx, times); err != nil {
		return nil, nil, err
	}
	r, err := s.verify(ctx, times)
	return s, r, err
}

// suspect returns the feature to give up next: the first that the violation points to, or
// else the first, of those that the refused plan has. It returns nil if there is none left.
func suspect(s *State, r *verify.Report, tried map[string]bool) (next *feature) {
	code := r.Violations[0].Code
	for i := range features {
		f := &features[i]
		if tried[f.name] || !f.used(s) {
			continue
		}
		if slices.Contains(f.codes, code) {
			return f
		}
		if next == nil && !f.alone {
			next = f
		}
	}
	return next
}

// GivenUp is a feature without which a model was planned, since the plan with it was refused
// by package plan/verify. That is a fault of onnxmem.
type GivenUp struct {
	Feature          string `json:"feature"` // in words, such as "slices"
	verify.Violation        // the first of the refused plan
	More             int    `json:"more,omitempty"` // other violations
}

// String says what was given up and why, in one line.
func (g GivenUp) String() string {
	return fmt.Sprintf("planned without %s: with them, the plan is not valid: %s", g.Feature, violationText(g.Violation, g.More))
}

// RefusedError reports that package plan/verify refuses the plan, and every other one that
// was made without a feature that may be given up. That is a fault of onnxmem.
type RefusedError struct {
	Violations []verify.Violation // of the plan: at least one
	More       int                // violations that are not listed
	Without    []Without          // what was tried
}

// Without says why there is no valid plan without a feature, either.
type Without struct{ Feature, Why string }

func (e *RefusedError) note(f *feature, why string) {
	e.Without = append(e.Without, Without{f.name, why})
}

// Error gives the first violation and what was tried.
func (e *RefusedError) Error() string {
	text := "no valid plan was found: " + violationText(e.Violations[0], len(e.Violations)-1+e.More)
	said := map[string]bool{}
	for _, x := range e.Without {
		why := x.Why
		if said[why] || why == e.Violations[0].Message {
			why = "the same"
		}
		said[why] = true
		text += fmt.Sprintf("; without %s: %s", x.Feature, why)
	}
	return text
}

func violationText(v verify.Violation, more int) string {
	text := v.Message
	if !strings.HasPrefix(text, v.Code+":") {
		text = v.Code + ": " + text
	}
	if more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}
