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
const hintNodes = 20_000

// attentionHint returns the hint of a plan; nil if there is none.
func (s *State) attentionHint(ctx context.Context) *AttentionHint {
	if s.plan == nil || s.now.Ranged != nil || s.asked.Slices != SlicesOff || !slices.ContainsFunc(s.now.Model.Graph.Nodes, isSoftmax) {
		return nil
	}
	if s.step != nil {
		if kept := keptWeights(s.now.Model.Graph, atPeak(s.plan)); kept > 0 && !s.asked.Train.Attention {
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

// keptWeights are the bytes of live buffers with weights of attention of a step: of what a Softmax makes, or
// nodes that hand it on, as the left side of a product.
func keptWeights(g *graph.Graph, live map[string]*plan.Buffer) (bytes int64) {
	readers := make([][]*graph.Node, len(g.Tensors))
	for _, n := range g.Nodes {
		n.Reads(func(t graph.TensorID) { readers[t] = append(readers[t], n) })
	}
	counted := map[*plan.Buffer]bool{}
	for _, n := range g.Nodes {
		if !isSoftmax(n) || len(g.Tensors[n.Outputs[0]].Type.Shape) < 3 {
			continue
		}
		var way []graph.TensorID
		t, product := n.Outputs[0], false
		for t >= 0 && len(way) < 4 && !product {
			way = append(way, t)
			t, product = handedOn(readers[t], t)
		}
		for _, u := range way {
			if b := live[g.Tensors[u].Name]; product && b != nil && !counted[b] {
				counted[b] = true
				bytes += b.Bytes
			}
		}
	}
	return bytes
}

// handedOn returns what a node makes of weights that stays weights, and whether a product has them on its
// left side.
func handedOn(readers []*graph.Node, t graph.TensorID) (next graph.TensorID, product bool) {
	next = graph.TensorID(graph.None)
	for _, r := range readers {
		if phase, _ := r.Prop("onnxmem.phase"); phase == "backward" || r.Domain != "" {
			continue
		}
		switch r.Op {
		case "MatMul":
			product = product || r.Inputs[0] == t
		case "Where", "Cast", "Dropout":
			next = r.Outputs[0]
		}
	}
	return next, product
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
