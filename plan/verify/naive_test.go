package verify_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
)

// naive is a planner for tests: it keeps the file's order and places one buffer after
// another. Each group lists the tensors that share a buffer of the main graph; groups
// must contain all possible in-place results.
type naive struct {
	views, inplace bool
	groups         []string
	align          int64
	dims           map[string]int64
	again          map[string]string // recomputed nodes: an output, and the same output of the first run
	plain          string            // the main graph without recomputation and transfers
	hosts          map[string][2]int // tensors on the host, with their first and last steps
	link           int64             // speed of the link to the host, bytes per second
	waiting        float64           // time spent waiting for transfers, nanoseconds

	t        testing.TB
	m        *graph.Model
	p        *plan.Plan
	resident int64
	host     int64
}

// plan plans a model and returns the annotated file and the plan.
func (nv naive) plan(t testing.TB, x text) ([]byte, *plan.Plan) {
	t.Helper()
	if nv.align == 0 {
		nv.align = 64
	}
	nv.t, nv.m = t, x.build(t)
	inf, err := ops.Infer(nv.m, ops.Options{Dims: nv.dims})
	if err != nil {
		t.Fatal(err)
	}
	p := &plan.Plan{
		Format: plan.Format, Version: plan.Version, Tool: "test", Mode: "inference",
		Dims: map[string]plan.Dim{}, Alignment: nv.align,
		Sharing:      plan.Sharing{Views: nv.views, Inplace: nv.inplace},
		Buffers:      []plan.Buffer{},
		Certificates: []plan.Certificate{}, Subgraphs: []plan.Subgraph{}, Dynamic: []plan.Dynamic{},
	}
	if x.props["onnxmem.mode"] == "training" {
		p.Mode = "training"
	}
	for _, d := range inf.Dims {
		p.Dims[d.Name] = plan.Dim{Value: d.Value, Assumed: d.Assumed}
	}
	nv.p = p
	nv.p.Source = plan.SourceOf(nv.m)
	work := nv.bodies(nv.m.Graph, nil)
	arena := int64(0)
	p.Buffers, p.Steps, p.Dynamic, arena = nv.scope(nv.m.Graph, plan.Arena, nv.groups, work)
	if p.Dynamic == nil {
		p.Dynamic = []plan.Dynamic{}
	}
	nv.summary(arena)
	if nv.plain != "" {
		nv.repeat(x)
	}
	nv.annotate()
	b := encode(t, nv.m)
	p.Model = plan.SourceOf(parse(t, b))
	return b, p
}

// bodies plans the bodies of g and returns each node's workspace.
func (nv *naive) bodies(g *graph.Graph, parent *int) []int64 {
	work := make([]int64, len(g.Nodes))
	for i, n := range g.Nodes {
		for _, a := range n.Bodies() {
			at := len(nv.p.Subgraphs)
			nv.p.Subgraphs = append(nv.p.Subgraphs, plan.Subgraph{})
			inner := nv.bodies(a.Graph, &at)
			s := plan.Subgraph{Parent: parent, Node: n.Name, Step: i, Attribute: a.Name}
			s.Buffers, s.Steps, s.Dynamic, s.Bytes = nv.scope(a.Graph, plan.Workspace, nil, inner)
			nv.p.Subgraphs[at] = s
			work[i] = max(work[i], s.Bytes)
		}
		if n.Semantics.Call != nil {
			work[i] = 1 << 10 // more than any function of the models needs
		}
	}
	return work
}

func (nv *naive) round(n int64) int64 { return (n + nv.align - 1) / nv.align * nv.align }

// scope places the tensors of one graph.
func (nv *naive) scope(g *graph.Graph, pool string, groups []string, work []int64) ([]plan.Buffer, []plan.Step, []plan.Dynamic, int64) {
	end := max(len(g.Nodes)-1, 0)
	buffers := []plan.Buffer{}
	var dynamic []plan.Dynamic
	of := map[string]*graph.Tensor{}
	var order []string
	add := func(t *graph.Tensor) {
		if t.Dynamic == "" {
			of[t.Name] = t
			order = append(order, t.Name)
			return
		}
		d := plan.Dynamic{Tensor: t.Name, Reason: t.Dynamic}
		if t.Maker >= 0 {
			d.Node = g.Nodes[t.Maker].Name
		}
		dynamic = append(dynamic, d)
	}
	for _, t := range g.Tensors {
		if t.Maker < 0 && !t.Capture {
			add(t)
		}
	}
	for _, n := range g.Nodes {
		for _, t := range n.Outputs {
			if t >= 0 {
				add(g.Tensors[t])
			}
		}
	}
	grouped := map[string]string{}
	for _, group := range groups {
		for name := range strings.FieldsSeq(group) {
			grouped[name] = group
		}
	}
	steps := make([]plan.Step, len(g.Nodes))
	for i, n := range g.Nodes {
		steps[i] = plan.Step{Name: n.Name, Op: plan.OpName(n)}
	}
	arena := int64(0)
	put := func(b plan.Buffer, resident bool) {
		b.Pool, b.Offset = pool, arena
		hosted, away := [2]int{}, false
		if len(b.Tensors) > 0 && pool == plan.Arena {
			hosted, away = nv.hosts[b.Tensors[0]]
		}
		if away {
			b.Pool, b.Offset, b.First, b.Last = plan.Host, nv.host, hosted[0], hosted[1]
			nv.host += b.Bytes
		} else if resident {
			b.Pool, b.Offset, b.First, b.Last = plan.Resident, nv.resident, 0, end
			nv.resident += b.Bytes
		} else {
			arena += b.Bytes
			for i := b.First; i <= b.Last && i < len(steps); i++ {
				steps[i].LoadBytes += b.Bytes
			}
		}
		buffers = append(buffers, b)
	}
	done := map[string]bool{}
	for _, name := range order {
		names := []string{name}
		if group := grouped[name]; group != "" {
			names = strings.Fields(group)
		}
		if done[name] {
			continue
		}
		b := plan.Buffer{Tensors: names, Kind: plan.KindActivation, First: end, Last: 0}
		resident := false
		for _, name := range names {
			done[name] = true
			t := of[name]
			if t == nil {
				nv.t.Fatalf("no tensor %q", name)
			}
			nv.extend(g, &b, t, end)
			bytes := t.Bytes
			if t.Data != nil {
				bytes = t.Data.Bytes
			}
			b.Bytes = max(b.Bytes, nv.round(bytes))
			resident = resident || t.Data != nil || t.Maker >= 0 && g.Nodes[t.Maker].Op == "Constant"
		}
		switch {
		case resident:
			b.Kind = plan.KindConstant
		case nv.p.Mode == "training" && names[0] == "w":
			b.Kind, resident = plan.KindParameter, true
		}
		put(b, resident)
	}
	for i, bytes := range work {
		if bytes > 0 {
			put(plan.Buffer{Bytes: bytes, First: i, Last: i, Kind: plan.KindWorkspace, Tensors: []string{}, Node: &i}, false)
		}
	}
	return buffers, steps, dynamic, arena
}

// extend adds one tensor's lifetime and kind to a buffer.
func (nv *naive) extend(g *graph.Graph, b *plan.Buffer, t *graph.Tensor, end int) {
	b.Bounded = b.Bounded || t.Bounded
	first := max(int(t.Maker), 0)
	b.First, b.Last = min(b.First, first), max(b.Last, first)
	for _, r := range t.Readers {
		b.Last = max(b.Last, int(r))
	}
	gradients, _ := nv.m.Prop("onnxmem.gradients")
	switch {
	case slices.ContainsFunc(g.Outputs, func(o graph.TensorID) bool { return g.Tensors[o] == t }):
		b.Kind, b.Last = plan.KindOutput, end
	case strings.Contains(gradients, "="+t.Name+`"`):
		b.Kind = plan.KindGradient
	case t.Input && b.Kind == plan.KindActivation:
		b.Kind = plan.KindInput
	}
}

// summary fills in the rest of the plan.
func (nv *naive) summary(arena int64) {
	p := nv.p
	s := &p.Summary
	s.Nodes, s.Dynamic = len(p.Steps), len(p.Dynamic)
	for _, t := range nv.m.Graph.Tensors {
		if t.Maker >= 0 || t.Input {
			s.Tensors++
		}
	}
	s.ResidentBytes, s.ArenaBytes, s.TotalBytes = nv.resident, arena, arena+nv.resident
	for _, b := range p.Buffers {
		if b.Pool == plan.Arena {
			s.NaiveBytes += b.Bytes
		}
	}
	p.ProgramOrder = plan.ProgramOrder{Steps: []int{}, LoadBytes: []int64{}}
	for i, step := range p.Steps {
		if step.LoadBytes > s.PeakBytes {
			s.PeakBytes, s.PeakStep = step.LoadBytes, i
		}
		p.ProgramOrder.Steps = append(p.ProgramOrder.Steps, i)
		p.ProgramOrder.LoadBytes = append(p.ProgramOrder.LoadBytes, step.LoadBytes)
	}
	if len(p.Steps) == 0 {
		s.PeakBytes = s.NaiveBytes
	}
	s.ProgramPeakBytes = s.PeakBytes
	s.ScheduleOptimal, s.PlacementOptimal = s.PeakBytes == 0, s.ArenaBytes == s.PeakBytes
	p.Pools = []plan.Pool{{Name: plan.Arena, Bytes: arena}, {Name: plan.Resident, Bytes: nv.resident}}
	if nv.host > 0 {
		p.Pools = append(p.Pools, plan.Pool{Name: plan.Host, Bytes: nv.host})
	}
}

// repeat marks recomputed nodes and tensors on the host.
func (nv *naive) repeat(x text) {
	p := nv.p
	l := &plan.Limited{LimitBytes: p.Summary.PeakBytes, PlainPeakBytes: 1 << 20}
	p.Summary.Limited = l
	step := func(output string) int {
		return slices.IndexFunc(p.Steps, func(s plan.Step) bool { return s.Name == "make "+output })
	}
	swaps := 0
	for i, n := range nv.m.Graph.Nodes {
		if n.Domain == "onnxmem" {
			swaps++
			continue
		}
		p.Steps[i].CostNS = 1000
	}
	l.HostLink, l.SwappedBuffers, l.SwappedBytes = nv.link, len(nv.hosts), nv.host
	for _, output := range sorted(nv.again) {
		first := step(nv.again[output])
		p.Steps[step(output)].Again = &first
		l.RecomputedNodes++
	}
	firsts := len(p.Steps) - l.RecomputedNodes - swaps
	l.WaitingPercent = 100 * nv.waiting / float64(1000*firsts)
	l.ExtraCostPercent = l.WaitingPercent + 100*float64(l.RecomputedNodes)/float64(firsts)
	p.ProgramOrder.Steps = slices.DeleteFunc(p.ProgramOrder.Steps, func(i int) bool { return p.Steps[i].Again != nil || p.Steps[i].CostNS == 0 })
	x.main = nv.plain
	_, plain := naive{views: nv.views, inplace: nv.inplace, align: nv.align, dims: nv.dims}.plan(nv.t, x)
	p.ProgramOrder.LoadBytes = plain.ProgramOrder.LoadBytes
	p.Summary.ProgramPeakBytes = slices.Max(p.ProgramOrder.LoadBytes)
}

// annotate writes the plan into the model.
func (nv *naive) annotate() {
	p := nv.p
	dims, err := json.Marshal(p.Dims)
	if err != nil {
		nv.t.Fatal(err)
	}
	nv.m.SetProp("onnxmem.plan_version", "1")
	nv.m.SetProp("onnxmem.arena_bytes", fmt.Sprint(p.Summary.ArenaBytes))
	nv.m.SetProp("onnxmem.peak_bytes", fmt.Sprint(p.Summary.PeakBytes))
	nv.m.SetProp("onnxmem.lower_bound_bytes", fmt.Sprint(p.Summary.LowerBoundBytes))
	nv.m.SetProp("onnxmem.dims", string(dims))
	nv.offsets(nv.m.Graph, p.Buffers)
	var next int
	var walk func(g *graph.Graph)
	walk = func(g *graph.Graph) {
		for _, n := range g.Nodes {
			for _, a := range n.Bodies() {
				nv.offsets(a.Graph, p.Subgraphs[next].Buffers)
				next++
				walk(a.Graph)
			}
		}
	}
	walk(nv.m.Graph)
}

func (nv *naive) offsets(g *graph.Graph, buffers []plan.Buffer) {
	for _, n := range g.Nodes {
		var entries []string
		for _, t := range n.Outputs {
			for _, b := range buffers {
				if t >= 0 && slices.Contains(b.Tensors, g.Tensors[t].Name) {
					entries = append(entries, fmt.Sprintf("%s=%s:%d:%d", g.Tensors[t].Name, b.Pool, b.Offset, b.Bytes))
				}
			}
		}
		if len(entries) > 0 {
			n.SetProp("onnxmem.offset", strings.Join(entries, " "))
		}
	}
}
