package passes

import (
	"context"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// PlanProblem orders the nodes of a bare problem and places its buffers. The plan has the figures,
// steps and buffers that [plan.Plan.Gates] and [plan.Plan.Diff] compare; it belongs to no
// model, so it must not be written or verified.
func PlanProblem(ctx context.Context, p *schedule.Problem, effort schedule.Effort) (*plan.Plan, error) {
	solved, err := schedule.Solve(ctx, p, schedule.Options{Effort: effort})
	if err != nil {
		return nil, err
	}
	e := solved.Evaluation
	list, err := p.Lifetimes(solved.Order, e.Taken)
	if err != nil {
		return nil, err
	}
	buffers, err := buffersOf(p, solved.Order, e.Taken)
	if err != nil {
		return nil, err
	}
	placed, err := alloc.Solve(ctx, alloc.Problem{Buffers: buffers, Alignment: 1}, alloc.Options{Effort: planner.Placement(effort)})
	if err != nil {
		return nil, err
	}
	x := &plan.Plan{Mode: p.Mode, Alignment: 1}
	x.Summary = plan.Summary{
		Nodes: len(p.Nodes), Tensors: len(p.Tensors), ProgramPeakBytes: solved.ProgramPeak,
		PeakBytes: e.Peak, LowerBoundBytes: solved.Bound, ScheduleOptimal: solved.Optimal,
		ArenaBytes: placed.Arena, PlacementOptimal: placed.Optimal,
	}
	x.ProgramOrder.Steps = make([]int, len(p.Nodes))
	for i, v := range solved.Order {
		x.Steps = append(x.Steps, plan.Step{Name: p.Nodes[v].Name, Op: p.Nodes[v].Op, LoadBytes: e.Loads[i]})
		x.ProgramOrder.Steps[v] = i
	}
	if len(e.Loads) > 0 {
		x.Summary.PeakStep = max(slices.Index(e.Loads, e.Peak), 0)
	}
	for i, l := range list {
		x.Buffers = append(x.Buffers, problemBuffer(p, &l, placed.Offsets[i], x.ProgramOrder.Steps))
		x.Summary.NaiveBytes += l.Bytes
	}
	for i := range p.Tensors {
		if t := &p.Tensors[i]; t.Resident && t.Bytes > 0 {
			x.Buffers = append(x.Buffers, plan.Buffer{
				Pool: plan.Resident, Offset: x.Summary.ResidentBytes, Bytes: t.Bytes, Last: max(len(p.Nodes)-1, 0),
				Kind: plan.KindParameter, Tensors: []string{problemTensor(p, int32(i))},
			})
			x.Summary.ResidentBytes += t.Bytes
		}
	}
	x.Summary.TotalBytes = placed.Arena + x.Summary.ResidentBytes
	x.Pools = []plan.Pool{{Name: plan.Arena, Bytes: placed.Arena}, {Name: plan.Resident, Bytes: x.Summary.ResidentBytes}}
	return x, nil
}

// problemBuffer returns a buffer of the arena; steps are those of the nodes.
func problemBuffer(p *schedule.Problem, l *schedule.Lifetime, offset int64, steps []int) plan.Buffer {
	b := plan.Buffer{Pool: plan.Arena, Offset: offset, Bytes: l.Bytes, First: l.First, Last: l.Last, Kind: plan.KindActivation}
	if l.Node >= 0 {
		b.Kind, b.Node = plan.KindWorkspace, &steps[l.Node]
	}
	for _, t := range l.Tensors {
		b.Tensors = append(b.Tensors, problemTensor(p, t))
	}
	return b
}

func problemTensor(p *schedule.Problem, t int32) string {
	if name := p.Tensors[t].Name; name != "" {
		return name
	}
	return fmt.Sprint("tensor ", t)
}
