package passes

import (
	"slices"

	"github.com/onnxmem/onnxmem/alloc/tiers"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// PlanAt returns the plan of one point of a plan for ranges of dimensions, with the sizes
// that inference finds there; see [plan.Plan.At]. m is the planned model. It does not
// change m.
func PlanAt(m *graph.Model, p *plan.Plan, dims map[string]int64) (_ *plan.Plan, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	if p.Ranges == nil {
		return p.At(dims, nil)
	}
	if err := p.CheckPoint(dims); err != nil {
		return nil, err
	}
	m = p.InRunOrder(m)
	all := map[string]int64{}
	names, _ := p.Box()
	for name, d := range p.Dims {
		if !d.Assumed && !d.Follows {
			all[name] = d.Value
		}
	}
	for _, name := range names {
		all[name] = dims[name]
	}
	c := *m
	c.Graph = m.Graph.Clone()
	bind := planner.Binding{Given: ops.Options{Dims: all, Values: p.Values, SpareDims: p.Mode == planner.ModeTraining}, Runtime: p.Sharing.Runtime}
	inf, err := bind.Infer(&c)
	if err != nil {
		return nil, err
	}
	var sizes []map[string]int64
	for _, g := range plan.Graphs(c.Graph) {
		of := make(map[string]int64, len(g.Tensors))
		for _, t := range g.Tensors {
			if t.Dynamic == "" && !t.Capture {
				of[t.Name] = t.Bytes
			}
		}
		sizes = append(sizes, of)
	}
	at, err := p.At(dims, sizes)
	if err != nil {
		return nil, err
	}
	if err := proofAt(&c, p, at, inf); err != nil {
		return nil, err
	}
	if err := tieredAt(&c, p, at, inf); err != nil {
		return nil, err
	}
	for _, d := range inf.Dims {
		if p.Dims[d.Name].Follows {
			at.Dims[d.Name] = plan.Dim{Value: d.Value, Assumed: d.Assumed}
		}
	}
	return at, nil
}

// proofAt gives the plan of a point the certificate that proves most there, and its bound.
// m is inferred at the point.
func proofAt(m *graph.Model, p, at *plan.Plan, inf *ops.Inference) error {
	x := &planner.Rules{Align: p.Alignment, NoViews: !p.Sharing.Views, NoInplace: !p.Sharing.Inplace}
	r, err := x.Shared(m, inf.Given, nil)
	if err != nil {
		return err
	}
	for i := range at.Buffers {
		if b := &at.Buffers[i]; b.Node != nil {
			r.Workspace[*b.Node] = b.Bytes
		}
	}
	if p.Sharing.Aliases {
		if r, err = r.Relaxed(); err != nil {
			return err
		}
	}
	problem := r.Problem()
	best := plan.Certificate{ValueBytes: -1}
	for _, c := range p.Ranges.Certificates {
		nodes := make([]int32, len(c.Steps))
		for i, step := range c.Steps {
			nodes[i] = int32(step)
		}
		if n := box.ProvedBy(problem, schedule.Certificate{Kind: c.Kind, Nodes: nodes}); n > best.ValueBytes {
			best = plan.Certificate{Kind: c.Kind, Nodes: c.Nodes, Steps: c.Steps, ValueBytes: n}
		}
	}
	if best.ValueBytes >= at.Summary.LowerBoundBytes {
		at.Certificates = []plan.Certificate{best}
		at.Summary.LowerBoundBytes = min(best.ValueBytes, at.Summary.PeakBytes)
		at.Summary.ScheduleOptimal = at.Summary.LowerBoundBytes == at.Summary.PeakBytes
	}
	return nil
}

// keepTaken leaves to the nodes the sharing that a plan takes: of a plan for ranges, a point
// may permit more.
func keepTaken(m *graph.Model, p *plan.Plan) {
	at := map[string]int{}
	for b := range p.Buffers {
		for _, name := range p.Buffers[b].Tensors {
			at[name] = b + 1
		}
	}
	g := m.Graph
	for _, n := range g.Nodes {
		apart := func(a graph.Alias) bool {
			in, out := n.Inputs[a.In], n.Outputs[a.Out]
			return in < 0 || out < 0 || at[g.Tensors[in].Name] == 0 || at[g.Tensors[in].Name] != at[g.Tensors[out].Name]
		}
		n.Semantics.Views = slices.DeleteFunc(slices.Clone(n.Semantics.Views), apart)
		n.Semantics.Inplace = slices.DeleteFunc(slices.Clone(n.Semantics.Inplace), apart)
	}
}

// tieredAt gives the plan of a point with several pools what nodes move there, and the bound that
// the plan's prices prove. m is inferred at the point.
func tieredAt(m *graph.Model, p, at *plan.Plan, inf *ops.Inference) error {
	list := p.Tiers()
	if list == nil {
		return nil
	}
	keepTaken(m, p)
	x := &planner.Rules{Align: p.Alignment, NoViews: !p.Sharing.Views, NoInplace: !p.Sharing.Inplace}
	index := map[string]int{}
	for i, t := range list {
		index[t.Name] = i
		x.Pools = append(x.Pools, planner.Memory{Name: t.Name, Capacity: t.Capacity, BytesPerSecond: t.BytesPerSecond})
	}
	r, err := x.Shared(m, inf.Given, nil)
	if err != nil {
		return err
	}
	problem, placed, err := r.PoolProblem(takenBy(r, at))
	if err != nil {
		return err
	}
	byName, byNode := map[string]*plan.Buffer{}, map[int]*plan.Buffer{}
	for i := range at.Buffers {
		b := &at.Buffers[i]
		if b.Node != nil {
			byNode[*b.Node] = b
		}
		for _, name := range b.Tensors {
			byName[name] = b
		}
	}
	d := &tiers.Division{Bytes: make([]int64, len(list))}
	for _, k := range placed {
		b := byNode[int(r.Buffers[k].Node)]
		if len(r.Buffers[k].Storages) > 0 {
			b = byName[r.NameOf(r.Buffers[k].Storages[0])]
		}
		d.Memory, d.Offsets = append(d.Memory, index[b.Pool]), append(d.Offsets, b.Offset)
	}
	r.Divided(problem, placed, d)
	var prices []tiers.Price
	for _, x := range p.TrafficPrices {
		prices = append(prices, tiers.Price{Step: x.Step, Value: x.Price})
	}
	r.TrafficBound = problem.Bound(prices)
	for i := range at.Pools {
		if t := at.Pools[i].Tier; t != nil {
			*t = r.Tiers[index[at.Pools[i].Name]]
		}
	}
	at.Summary.Tiered, at.TrafficPrices = r.Tiered(), p.TrafficPrices
	return nil
}

// takenBy returns the in-place pairs of a plan's buffers, and notes its workspaces.
func takenBy(r *planner.Region, p *plan.Plan) (taken []schedule.Pair) {
	of := map[string]int32{}
	for id, i := range r.StorageOf {
		if i != planner.NoStorage {
			of[r.G.Tensors[id].Name] = i
		}
	}
	for k := range p.Buffers {
		b := &p.Buffers[k]
		if b.Node != nil {
			r.Workspace[*b.Node] = b.Bytes
		}
		if plan.Stays(b.Kind) {
			continue // updates chain them
		}
		before := int32(planner.NoStorage)
		for _, name := range b.Tensors {
			i := of[name]
			if before != planner.NoStorage && i != before {
				taken = append(taken, schedule.Pair{Over: before, Result: i})
			}
			before = i
		}
	}
	return taken
}
