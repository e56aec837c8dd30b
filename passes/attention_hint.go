package passes

import (
	"context"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/attend"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// AttentionHint says what Options.Attention would save, or that of a training step. There is none unless
// scores or weights of attention lie at the peak.
type AttentionHint struct {
	// PeakBytes is the peak with it, if that is 5 % below that of the plan, by the fast search and without a
	// limit; 0 of a step.
	PeakBytes int64
	// KeptBytes are the weights of attention at the peak of a step, which it would not keep; 0 of other
	// models.
	KeptBytes int64
}

// hintNodes is the number of nodes up to which a model is planned once more for the hint.
const hintNodes = 4_000

// attentionHint returns the hint of a plan; nil if there is none.
func (s *State) attentionHint(ctx context.Context) *AttentionHint {
	if s.plan == nil || s.now.Ranged != nil || s.asked.Slices != SlicesOff || !slices.ContainsFunc(s.now.Model.Graph.Nodes, isSoftmax) {
		return nil
	}
	if s.step != nil {
		if kept := keptBytes(s.step.Weights, atPeak(s.plan)); kept > 0 {
			return &AttentionHint{KeptBytes: kept}
		}
		return nil
	}
	if s.holdsScores() {
		return s.withAttention(ctx)
	}
	return nil
}

// isSoftmax reports whether a node may make weights of attention.
func isSoftmax(n *graph.Node) bool {
	switch n.Op {
	case "Softmax":
		return n.Domain == ""
	}
	return false
}

// atPeak returns the bytes of the buffers at the peak by the tensors in them.
func atPeak(p *plan.Plan) map[string]*plan.Buffer {
	live := map[string]*plan.Buffer{}
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if b.Pool != plan.Resident && b.Pool != plan.Host && b.First <= p.Summary.PeakStep && p.Summary.PeakStep <= b.Last {
			for _, name := range b.Tensors {
				live[name] = b
			}
		}
	}
	return live
}

// keptBytes are the bytes of live buffers with some of the named tensors.
func keptBytes(names []string, live map[string]*plan.Buffer) (bytes int64) {
	counted := map[*plan.Buffer]bool{}
	for _, name := range names {
		if b := live[name]; b != nil && !counted[b] {
			counted[b] = true
			bytes += b.Bytes
		}
	}
	return bytes
}

// holdsScores reports whether scores or weights of attention that can be replaced lie at the peak.
func (s *State) holdsScores() bool {
	a := s.asked
	own := a.Attention || a.KVCapacity > 0 || a.StatesAuto || len(a.States) > 0 || a.InlineFunctions || a.Workspaces != nil || len(a.Pools) > 0
	if own || s.origin.untouched == nil || a.Passes != nil || a.Schedule != "" || a.Placement != "" || a.RuntimeOrder || a.Solver != nil || a.TimeLimit != 0 || len(s.now.Model.Graph.Nodes) > hintNodes {
		return false
	}
	m, err := graph.Inline(copyOf(s.origin.untouched))
	if err != nil {
		return false
	}
	found, err := s.now.Bind.Infer(m)
	if err != nil {
		return false
	}
	live := atPeak(s.plan)
	return slices.ContainsFunc(attend.Find(m, found.Values).Scores, func(name string) bool { return live[name] != nil })
}

// withAttention plans the model once more, with the operator.
func (s *State) withAttention(ctx context.Context) *AttentionHint {
	opt := s.asked
	opt.Attention, opt.Effort, opt.NoVerify, opt.Aliases = true, schedule.EffortFast, true, AliasesOff
	opt.Limit, opt.Host, opt.Frontier, opt.ExtraPercent, opt.Compact, opt.NoRecompute = nil, nil, false, 0, false, false
	opt.Progress, opt.Trace, opt.Printed, opt.PrintAfter, opt.Check = nil, nil, nil, nil, false
	r, err := Optimize(ctx, copyOf(s.origin.untouched), opt)
	if err != nil || r.Plan == nil || r.Plan.Summary.PeakBytes > s.plan.Summary.PeakBytes/20*19 {
		return nil
	}
	return &AttentionHint{PeakBytes: r.Plan.Summary.PeakBytes}
}
