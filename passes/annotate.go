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
	r := s.main
	p := &plan.Plan{
		Format: plan.Format, Version: plan.Version, Tool: s.opt.Tool, Mode: modeOf(s.model),
		Dims: s.dims(), Values: s.inference.Given, Alignment: s.opt.Align,
		Sharing:          plan.Sharing{Views: !s.opt.NoViews, Inplace: !r.noInplace, Runtime: s.opt.Runtime},
		KeepsRandomOrder: s.opt.KeepRandomOrder,
		Certificates:     []plan.Certificate{}, Subgraphs: []plan.Subgraph{},
	}
	if p.Tool == "" {
		p.Tool = "onnxmem"
	}
	p.Source = plan.SourceOf(s.given)
	resident := int64(0)
	p.Buffers = r.planBuffers(plan.Arena, &resident)
	p.Steps, p.Dynamic = r.planSteps(), r.planDynamic()
	if r.apart != nil {
		if p.Sharing.Aliases, p.Spans = true, r.planSpans(); s.slices != nil {
			s.slices.withAliases()
		}
	}
	program := r
	if s.budget != nil {
		s.budget.place(r)
		s.budget.annotate(p.Steps)
		program = s.budget.before
	}
	if s.moved != nil {
		program = s.moved.before
	}
	subgraphs := map[*graph.Graph]int{}
	s.planBodies(p, r, nil, &resident, subgraphs)
	s.planFolded(p, subgraphs)
	var err error
	if p.KV, err = plan.KVOf(s.model); err != nil { // also of a model that an earlier planning rewrote
		return err
	}
	p.Workspaces = s.planWorkspaces(r)
	s.planSlices(p)
	p.Pools = r.planPools(resident)
	p.TrafficPrices = r.prices
	apart := cmp.Or(program.apart, program.solved)
	var programPeak int64
	p.ProgramOrder, programPeak = s.planProgramOrder(program, apart)
	bound, certificates := r.bound()
	if s.opt.noProof {
		bound, certificates = 0, nil
	}
	p.Certificates = append(p.Certificates, certificates...)
	p.Summary = plan.Summary{
		Nodes: len(r.g.Nodes), Tensors: s.tensors(), Dynamic: len(p.Dynamic),
		ResidentBytes: resident, ProgramPeakBytes: programPeak,
		PeakBytes: r.loads.Peak, LowerBoundBytes: bound, ArenaBytes: r.arena, TotalBytes: r.arena + resident,
		PeakStep: r.loads.PeakStep, ScheduleOptimal: r.loads.Peak == bound, PlacementOptimal: r.optimal,
	}
	if r.optimal {
		p.Summary.PlacementClaimedBy = r.claimedBy
	}
	for _, b := range p.Buffers {
		if b.Pool != plan.Resident && b.Pool != plan.Host {
			p.Summary.NaiveBytes += b.Bytes
		}
	}
	p.Summary.Tiered = r.tiered()
	if s.budget != nil {
		p.Summary.Limited = s.budget.limited(r, p.Steps)
	}
	if s.slices != nil {
		p.Summary.Unsliced = s.slices.unsliced(p.Summary.Limited)
	}
	p.Frontier = s.frontier
	s.planRanges(p)
	p.Traversal = r.traversal
	s.plan = p
	if err := s.writeProps(p); err != nil {
		return err
	}
	r.list()
	return nil
}

// planProgramOrder returns the nodes of a region in program order, by the steps of their first runs
// in the plan, with their loads, and the peak of these. Where nodes run again or tensors are copied,
// bodies were placed a second time: the loads are those with the workspaces of the plan.
func (s *State) planProgramOrder(program *region, solved *schedule.Result) (x plan.ProgramOrder, peak int64) {
	x = plan.ProgramOrder{Steps: program.steps(solved.ProgramOrder), LoadBytes: slices.Clone(solved.ProgramEvaluation.Loads)}
	if x.LoadBytes == nil {
		x.LoadBytes = []int64{}
	}
	firstStep := []int(nil)
	switch {
	case len(x.Steps) == 0:
		return x, solved.ProgramPeak
	case s.moved != nil:
		firstStep = s.moved.firstStep
	case s.budget != nil:
		firstStep = s.budget.firstStep
	default:
		return x, solved.ProgramPeak
	}
	for i, step := range x.Steps {
		x.Steps[i] = firstStep[step]
		x.LoadBytes[i] += s.main.workspace[firstStep[step]] - program.workspace[step]
	}
	return x, slices.Max(x.LoadBytes)
}

// tensors counts the inputs and node outputs of the main graph.
func (s *State) tensors() (n int) {
	for _, t := range s.main.g.Tensors {
		if t.Maker >= 0 || t.Input {
			n++
		}
	}
	return n
}

// bound returns the lower bound on the peak and the certificates that prove it.
// If only the search claims that bound, the best bound that a reader can prove is
// listed as well.
func (r *region) bound() (bytes int64, list []plan.Certificate) {
	add := func(kind string, steps []int, value int64) {
		c := plan.Certificate{Kind: kind, Nodes: []string{}, Steps: steps, ValueBytes: value}
		for _, step := range steps {
			c.Nodes = append(c.Nodes, r.g.Nodes[step].Name)
		}
		list = append(list, c)
	}
	for _, c := range r.solved.Certificates {
		add(c.Kind, r.steps(c.Nodes), c.Value)
		list[len(list)-1].ClaimedBy = c.ClaimedBy
		if c.Kind == schedule.KindSearch && r.apart == nil {
			if b := schedule.Bound(r.problem()); b.Kind != schedule.KindSearch {
				add(b.Kind, ints(b.Nodes), b.Value)
			}
		}
	}
	return r.solved.Bound, list
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
func (r *region) planBuffers(pool string, resident *int64) []plan.Buffer {
	list := make([]plan.Buffer, 0, len(r.buffers))
	base := *resident
	for k := range r.buffers {
		b := &r.buffers[k]
		out := plan.Buffer{
			Pool: pool, Offset: b.offset, Bytes: b.bytes, First: b.first, Last: b.last,
			Kind: r.bufferKind(b), Tensors: []string{},
		}
		if b.resident {
			b.offset += base
			out.Pool, out.Offset = plan.Resident, b.offset
			*resident += b.bytes
		} else if b.host {
			out.Pool = plan.Host
		} else if r.tierNames != nil {
			out.Pool = r.tierNames[b.pool]
		}
		for _, t := range r.tensorsOf(b) {
			out.Tensors = append(out.Tensors, r.g.Tensors[t].Name)
		}
		for _, i := range b.storages {
			out.Bounded = out.Bounded || r.storages[i].bounded
		}
		if b.node >= 0 {
			step := int(b.node)
			out.Node = &step
		}
		list = append(list, out)
	}
	return list
}

func (r *region) planSteps() []plan.Step {
	steps := make([]plan.Step, len(r.g.Nodes))
	for i, n := range r.g.Nodes {
		steps[i] = plan.Step{Name: n.Name, Op: plan.OpName(n), LoadBytes: r.loads.Loads[i]}
	}
	return steps
}

func (r *region) planDynamic() []plan.Dynamic {
	list := []plan.Dynamic{}
	for _, t := range r.g.Tensors {
		if t.Dynamic == "" || t.Capture || t.Data != nil {
			continue
		}
		d := plan.Dynamic{Tensor: t.Name, Reason: t.Dynamic}
		if t.Maker >= 0 {
			d.Node = r.g.Nodes[t.Maker].Name
		}
		list = append(list, d)
	}
	return list
}

// planBodies adds the plans of the bodies within a region; the bodies inside a
// body follow it. It notes their places in the plan.
func (s *State) planBodies(p *plan.Plan, r *region, parent *int, resident *int64, subgraphs map[*graph.Graph]int) {
	bodies := slices.Clone(r.bodies)
	slices.SortStableFunc(bodies, func(a, b body) int { return int(a.node) - int(b.node) })
	for _, b := range bodies {
		at := len(p.Subgraphs)
		subgraphs[b.r.g] = at
		p.Subgraphs = append(p.Subgraphs, plan.Subgraph{
			Parent: parent, Node: r.g.Nodes[b.node].Name, Step: int(b.node), Attribute: b.attr, Index: b.index,
			Bytes: b.r.arena, Buffers: b.r.planBuffers(plan.Workspace, resident),
			Steps: b.r.planSteps(), Dynamic: b.r.planDynamic(),
		})
		if s.ranged != nil {
			ranges := &plan.SubgraphRanges{Certificates: s.ranged.planProofs(b.r)}
			ranges.Stacking, ranges.SizeOf = s.ranged.planStacking(b.r)
			p.Subgraphs[at].Ranges = ranges
		}
		s.planBodies(p, b.r, &at, resident, subgraphs)
	}
}

// writeProps writes the offsets into the nodes' metadata and the summary figures
// into the model's.
func (s *State) writeProps(p *plan.Plan) error {
	s.main.annotate(plan.Arena)
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
		s.model.SetProp(e.Key, e.Value)
	}
	if err := s.writeStates(); err != nil {
		return err
	}
	if p.Slices == nil {
		s.model.DropProp(keySlices)
	} else {
		s.model.SetProp(keySlices, p.Slices.Mode)
	}
	if p.Folded == nil {
		s.model.DropProp(keyFolded)
	} else {
		s.model.SetProp(keyFolded, p.Folded.Mode)
	}
	if len(p.Values) == 0 {
		s.model.DropProp(keyValues)
		return nil
	}
	values, err := json.Marshal(p.Values)
	s.model.SetProp(keyValues, string(values))
	return err
}

// annotate writes "name=pool:offset:bytes" for each output of each node. It
// removes the entries of an earlier plan.
func (r *region) annotate(pool string) {
	place := make([]*buffer, len(r.storages))
	for k := range r.buffers {
		for _, i := range r.buffers[k].storages {
			place[i] = &r.buffers[k]
		}
	}
	for _, n := range r.g.Nodes {
		var entries []string
		for _, t := range n.Outputs {
			if t < 0 || r.storageOf[t] == noStorage {
				continue
			}
			pieces := r.piecesOf(r.storageOf[t])
			b, in, bytes := place[pieces[0]], pool, int64(0)
			if b == nil {
				continue
			}
			for _, i := range pieces {
				bytes += place[i].bytes
			}
			switch {
			case b.resident:
				in = plan.Resident
			case b.host:
				in = plan.Host
			case r.tierNames != nil:
				in = r.tierNames[b.pool]
			}
			entries = append(entries, fmt.Sprintf("%s=%s:%d:%d", r.g.Tensors[t].Name, in, b.offset, bytes))
		}
		if len(entries) == 0 {
			n.DropProp(keyOffset)
			continue
		}
		n.SetProp(keyOffset, strings.Join(entries, " "))
	}
	for _, b := range r.bodies {
		b.r.annotate(plan.Workspace)
	}
}

// writeStates notes the states in the model's metadata.
func (s *State) writeStates() error {
	if len(s.main.states) == 0 {
		s.model.DropProp(keyStates)
		return nil
	}
	text, err := json.Marshal(s.main.states)
	s.model.SetProp(keyStates, string(text))
	return err
}

// Buffers returns the buffers of the main graph in the form of the plan.
func (s *State) Buffers() []plan.Buffer {
	if s.main == nil || s.main.buffers == nil {
		return nil
	}
	if s.plan != nil {
		return slices.Clone(s.plan.Buffers)
	}
	resident := int64(0)
	return s.main.planBuffers(plan.Arena, &resident)
}
