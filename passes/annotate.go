package passes

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// The metadata keys of a planned file.
const (
	keyOffset  = "onnxmem.offset"
	keyVersion = "onnxmem.plan_version"
	keyArena   = "onnxmem.arena_bytes"
	keyPeak    = "onnxmem.peak_bytes"
	keyBound   = "onnxmem.lower_bound_bytes"
	keyDims    = "onnxmem.dims"
	keyValues  = "onnxmem.values"
	keyFolded  = "onnxmem.folded"
	keySlices  = "onnxmem.slices"
)

// annotate assembles the plan and writes the offsets into the nodes' metadata.
func annotate(_ context.Context, s *State) error {
	r := s.now.Main
	p := &plan.Plan{
		Format: plan.Format, Version: plan.Version, Tool: s.opt.Tool, Mode: planner.ModeOf(s.now.Model),
		Dims: s.dims(), Values: s.now.Inference.Given, Alignment: s.opt.Align,
		Sharing:          plan.Sharing{Views: !s.opt.NoViews, Inplace: !r.NoInplace, Runtime: s.opt.Runtime},
		KeepsRandomOrder: s.opt.KeepRandomOrder,
		Certificates:     []plan.Certificate{}, Subgraphs: []plan.Subgraph{},
	}
	if p.Tool == "" {
		p.Tool = "onnxmem"
	}
	p.Source = plan.SourceOf(s.given)
	resident := int64(0)
	p.Buffers = planBuffers(r, plan.Arena, &resident)
	p.Steps, p.Dynamic = planSteps(r), planDynamic(r)
	if r.Apart != nil {
		if p.Sharing.Aliases, p.Spans = true, r.PlanSpans(); s.less.slices != nil {
			s.less.slices.WithAliases()
		}
	}
	program := r
	if s.less.kept != nil {
		s.less.kept.Place(r)
		s.less.kept.Annotate(p.Steps)
		program = s.less.kept.Before
	}
	if s.less.moved != nil {
		program = s.less.moved.Before
	}
	subgraphs := map[*graph.Graph]int{}
	s.planBodies(p, r, nil, &resident, subgraphs)
	s.planFolded(p, subgraphs)
	s.planAttention(p)
	s.planPrecision(p)
	var err error
	if p.KV, err = plan.KVOf(s.now.Model); err != nil { // also of a model that an earlier planning rewrote
		return err
	}
	p.Workspaces = s.planWorkspaces(r)
	s.planSlices(p)
	p.Pools = planPools(r, resident)
	p.TrafficPrices = r.Prices
	apart := cmp.Or(program.Apart, program.Solved)
	var programPeak int64
	p.ProgramOrder, programPeak = s.planProgramOrder(program, apart)
	bound, certificates := bound(r)
	if s.opt.noProof {
		bound, certificates = 0, nil
	}
	p.Certificates = append(p.Certificates, certificates...)
	p.Summary = plan.Summary{
		Nodes: len(r.G.Nodes), Tensors: s.tensors(), Dynamic: len(p.Dynamic),
		ResidentBytes: resident, ProgramPeakBytes: programPeak,
		PeakBytes: r.Loads.Peak, LowerBoundBytes: bound, ArenaBytes: r.Arena, TotalBytes: r.Arena + resident,
		PeakStep: r.Loads.PeakStep, ScheduleOptimal: r.Loads.Peak == bound, PlacementOptimal: r.Optimal,
	}
	if r.Optimal {
		p.Summary.PlacementClaimedBy = r.ClaimedBy
	}
	for _, b := range p.Buffers {
		if b.Pool != plan.Resident && b.Pool != plan.Host {
			p.Summary.NaiveBytes += b.Bytes
		}
	}
	p.Summary.Tiered = r.Tiered()
	if s.less.kept != nil {
		p.Summary.Limited = s.less.kept.Limited(r, p.Steps)
	}
	if s.less.slices != nil {
		p.Summary.Unsliced = s.less.slices.Unsliced(p.Summary.Limited)
	}
	p.Frontier = s.less.frontier
	s.planRanges(p)
	p.Traversal = r.Traversal
	s.plan = p
	if err := s.writeProps(p); err != nil {
		return err
	}
	r.List()
	return nil
}

// planProgramOrder returns the nodes of a region in program order, by the steps of their first runs
// in the plan, with their loads, and the peak of these. Where nodes run again or tensors are copied,
// bodies were placed a second time: the loads are those with the workspaces of the plan.
func (s *State) planProgramOrder(program *planner.Region, solved *schedule.Result) (x plan.ProgramOrder, peak int64) {
	x = plan.ProgramOrder{Steps: program.Steps(solved.ProgramOrder), LoadBytes: slices.Clone(solved.ProgramEvaluation.Loads)}
	if x.LoadBytes == nil {
		x.LoadBytes = []int64{}
	}
	firstStep := []int(nil)
	switch {
	case len(x.Steps) == 0:
		return x, solved.ProgramPeak
	case s.less.moved != nil:
		firstStep = s.less.moved.FirstStep
	case s.less.kept != nil:
		firstStep = s.less.kept.FirstStep
	default:
		return x, solved.ProgramPeak
	}
	for i, step := range x.Steps {
		x.Steps[i] = firstStep[step]
		x.LoadBytes[i] += s.now.Main.Workspace[firstStep[step]] - program.Workspace[step]
	}
	return x, slices.Max(x.LoadBytes)
}

// tensors counts the inputs and node outputs of the main graph.
func (s *State) tensors() (n int) {
	for _, t := range s.now.Main.G.Tensors {
		if t.Maker >= 0 || t.Input {
			n++
		}
	}
	return n
}

// bound returns the lower bound on the peak and the certificates that prove it.
// If only the search claims that bound, the best bound that a reader can prove is
// listed as well.
func bound(r *planner.Region) (bytes int64, list []plan.Certificate) {
	add := func(kind string, steps []int, value int64) {
		c := plan.Certificate{Kind: kind, Nodes: []string{}, Steps: steps, ValueBytes: value}
		for _, step := range steps {
			c.Nodes = append(c.Nodes, r.G.Nodes[step].Name)
		}
		list = append(list, c)
	}
	for _, c := range r.Solved.Certificates {
		add(c.Kind, r.Steps(c.Nodes), c.Value)
		list[len(list)-1].ClaimedBy = c.ClaimedBy
		if c.Kind == schedule.KindSearch && r.Apart == nil {
			if b := schedule.Bound(r.BoundProblem()); b.Kind != schedule.KindSearch {
				add(b.Kind, ints(b.Nodes), b.Value)
			}
		}
	}
	return r.Solved.Bound, list
}

func ints(list []int32) []int {
	out := make([]int, len(list))
	for i, v := range list {
		out[i] = int(v)
	}
	return out
}

// planBuffers lists the buffers of a region for the plan. Constants follow the
// buffers that already have an offset in the resident pool.
func planBuffers(r *planner.Region, pool string, resident *int64) []plan.Buffer {
	list := make([]plan.Buffer, 0, len(r.Buffers))
	base := *resident
	for k := range r.Buffers {
		b := &r.Buffers[k]
		out := plan.Buffer{
			Pool: pool, Offset: b.Offset, Bytes: b.Bytes, First: b.First, Last: b.Last,
			Kind: r.BufferKind(b), Tensors: []string{},
		}
		if b.Resident {
			b.Offset += base
			out.Pool, out.Offset = plan.Resident, b.Offset
			*resident += b.Bytes
		} else if b.Host {
			out.Pool = plan.Host
		} else if r.TierNames != nil {
			out.Pool = r.TierNames[b.Pool]
		}
		for _, t := range r.TensorsOf(b) {
			out.Tensors = append(out.Tensors, r.G.Tensors[t].Name)
		}
		for _, i := range b.Storages {
			out.Bounded = out.Bounded || r.Storages[i].Bounded
		}
		if b.Node >= 0 {
			step := int(b.Node)
			out.Node = &step
		}
		list = append(list, out)
	}
	return list
}

func planSteps(r *planner.Region) []plan.Step {
	steps := make([]plan.Step, len(r.G.Nodes))
	for i, n := range r.G.Nodes {
		steps[i] = plan.Step{Name: n.Name, Op: plan.OpName(n), LoadBytes: r.Loads.Loads[i]}
	}
	return steps
}

func planDynamic(r *planner.Region) []plan.Dynamic {
	list := []plan.Dynamic{}
	for _, t := range r.G.Tensors {
		if t.Dynamic == "" || t.Capture || t.Data != nil {
			continue
		}
		d := plan.Dynamic{Tensor: t.Name, Reason: t.Dynamic}
		if t.Maker >= 0 {
			d.Node = r.G.Nodes[t.Maker].Name
		}
		list = append(list, d)
	}
	return list
}

// PlanBodies adds the plans of the bodies within a region; the bodies inside a
// body follow it. It notes their places in the plan.
func (s *State) planBodies(p *plan.Plan, r *planner.Region, parent *int, resident *int64, subgraphs map[*graph.Graph]int) {
	bodies := slices.Clone(r.Bodies)
	slices.SortStableFunc(bodies, func(a, b planner.Body) int { return int(a.Node) - int(b.Node) })
	for _, b := range bodies {
		at := len(p.Subgraphs)
		subgraphs[b.R.G] = at
		p.Subgraphs = append(p.Subgraphs, plan.Subgraph{
			Parent: parent, Node: r.G.Nodes[b.Node].Name, Step: int(b.Node), Attribute: b.Attr, Index: b.Index,
			Bytes: b.R.Arena, Buffers: planBuffers(b.R, plan.Workspace, resident),
			Steps: planSteps(b.R), Dynamic: planDynamic(b.R),
		})
		if s.now.Ranged != nil {
			ranges := &plan.SubgraphRanges{Certificates: s.now.Ranged.PlanProofs(b.R)}
			ranges.Stacking, ranges.SizeOf = s.now.Ranged.PlanStacking(b.R)
			p.Subgraphs[at].Ranges = ranges
		}
		s.planBodies(p, b.R, &at, resident, subgraphs)
	}
}

// writeProps writes the offsets into the nodes' metadata and the summary figures
// into the model's.
func (s *State) writeProps(p *plan.Plan) error {
	annotateRegion(s.now.Main, plan.Arena)
	dims, err := json.Marshal(p.Dims)
	if err != nil {
		return err
	}
	for _, e := range []graph.Prop{
		{Key: keyVersion, Value: strconv.Itoa(p.Version)},
		{Key: keyArena, Value: strconv.FormatInt(p.Summary.ArenaBytes, 10)},
		{Key: keyPeak, Value: strconv.FormatInt(p.Summary.PeakBytes, 10)},
		{Key: keyBound, Value: strconv.FormatInt(p.Summary.LowerBoundBytes, 10)},
		{Key: keyDims, Value: string(dims)},
	} {
		s.now.Model.SetProp(e.Key, e.Value)
	}
	if err := s.writeStates(); err != nil {
		return err
	}
	if p.Slices == nil {
		s.now.Model.DropProp(keySlices)
	} else {
		s.now.Model.SetProp(keySlices, p.Slices.Mode)
	}
	if p.Folded == nil {
		s.now.Model.DropProp(keyFolded)
	} else {
		s.now.Model.SetProp(keyFolded, p.Folded.Mode)
	}
	if len(p.Values) == 0 {
		s.now.Model.DropProp(keyValues)
		return nil
	}
	values, err := json.Marshal(p.Values)
	s.now.Model.SetProp(keyValues, string(values))
	return err
}

// annotateRegion writes "name=pool:offset:bytes" for each output of each node. It
// removes the entries of an earlier plan.
func annotateRegion(r *planner.Region, pool string) {
	place := make([]*planner.Buffer, len(r.Storages))
	for k := range r.Buffers {
		for _, i := range r.Buffers[k].Storages {
			place[i] = &r.Buffers[k]
		}
	}
	for _, n := range r.G.Nodes {
		var entries []string
		for _, t := range n.Outputs {
			if t < 0 || r.StorageOf[t] == planner.NoStorage {
				continue
			}
			pieces := r.PiecesOf(r.StorageOf[t])
			b, in, bytes := place[pieces[0]], pool, int64(0)
			if b == nil {
				continue
			}
			for _, i := range pieces {
				bytes += place[i].Bytes
			}
			switch {
			case b.Resident:
				in = plan.Resident
			case b.Host:
				in = plan.Host
			case r.TierNames != nil:
				in = r.TierNames[b.Pool]
			}
			entries = append(entries, fmt.Sprintf("%s=%s:%d:%d", r.G.Tensors[t].Name, in, b.Offset, bytes))
		}
		if len(entries) == 0 {
			n.DropProp(keyOffset)
			continue
		}
		n.SetProp(keyOffset, strings.Join(entries, " "))
	}
	for _, b := range r.Bodies {
		annotateRegion(b.R, plan.Workspace)
	}
}

// writeStates notes the states in the model's metadata.
func (s *State) writeStates() error {
	if len(s.now.Main.States) == 0 {
		s.now.Model.DropProp(planner.KeyStates)
		return nil
	}
	text, err := json.Marshal(s.now.Main.States)
	s.now.Model.SetProp(planner.KeyStates, string(text))
	return err
}

// Buffers returns the buffers of the main graph in the form of the plan.
func (s *State) Buffers() []plan.Buffer {
	if s.now.Main == nil || s.now.Main.Buffers == nil {
		return nil
	}
	if s.plan != nil {
		return slices.Clone(s.plan.Buffers)
	}
	resident := int64(0)
	return planBuffers(s.now.Main, plan.Arena, &resident)
}
