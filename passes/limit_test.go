package passes_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/vm"
)

// file encodes a model.
func file(t testing.TB, m *graph.Model) []byte {
	t.Helper()
	im, err := onnx.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	b, err := im.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// accepted plans a model and verifies the plan, without replaying the searches
// that bounds rest on.
func accepted(t testing.TB, b []byte, opt passes.Options) ([]byte, *plan.Plan) {
	t.Helper()
	m, err := onnx.Parse("in.onnx", b)
	if err != nil {
		t.Fatal(err)
	}
	opt.Check = true
	r, err := passes.Optimize(t.Context(), m, opt)
	if err != nil {
		t.Fatal(err)
	}
	out := file(t, r.Model)
	if m, err = onnx.Parse("out.onnx", out); err != nil {
		t.Fatal(err)
	}
	r.Plan.Model = plan.SourceOf(m)
	rep, err := verify.Plan(m, r.Plan, verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !rep.Valid {
		t.Fatalf("the plan is not valid:\n%s", rep)
	}
	if diff := cmp.Diff(rep.Summary, r.Plan.Summary); diff != "" {
		t.Errorf("summary recomputed (-) and planned (+):\n%s", diff)
	}
	return out, r.Plan
}

// network returns the file of a built-in network.
func network(t testing.TB, name string, dims map[string]int64, set map[string]string) []byte {
	t.Helper()
	m, err := models.Build(name, models.Options{Dims: dims, Set: set})
	if err != nil {
		t.Fatal(err)
	}
	return file(t, m)
}

// results runs a planned file for two steps, carrying the states over. It runs
// with poison and compares with an unplanned run.
func results(t testing.TB, b []byte, p *plan.Plan) map[string]vm.Value {
	t.Helper()
	m, err := onnx.Parse("out.onnx", b)
	if err != nil {
		t.Fatal(err)
	}
	program, err := vm.New(m, p)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	values := map[string]vm.Value{}
	for i, x := range append(program.Inputs(), program.States()...) {
		v, err := vm.Random(x, uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case x.Name == "labels": // random values are seldom classes
			clear(v.Data)
		case strings.Contains(x.Name, "running_var"):
			for k := 0; k+4 <= len(v.Data); k += 4 {
				binary.LittleEndian.PutUint32(v.Data[k:], math.Float32bits(1))
			}
		}
		values[x.Name] = v
	}
	check, err := program.CheckRun(t.Context(), []map[string]vm.Value{values}, vm.Options{Poison: true})
	if err != nil {
		t.Fatal(err)
	}
	if !check.Identical() {
		t.Fatalf("differs from an unplanned run: %v", check.First)
	}
	s, err := program.NewSession(vm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out := map[string]vm.Value{}
	for range 2 {
		got, err := s.Run(t.Context(), values)
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range got {
			v.Data = bytes.Clone(v.Data)
			out[name] = v
		}
		for _, x := range program.States() {
			delete(values, x.Name)
		}
	}
	return out
}

// same fails unless two runs gave the same bits.
func same(t testing.TB, got, want map[string]vm.Value) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d outputs, expected %d", len(got), len(want))
	}
	for name, w := range want {
		if g := got[name]; g.String() != w.String() || !bytes.Equal(g.Data, w.Data) {
			t.Errorf("%s differs from that of the plan without a limit", name)
		}
	}
}

// TestLimit: plans of training steps and inference stay below their limits, are
// valid, and give the same bits as plans without a limit; the extra cost is at
// least its bound.
func TestLimit(t *testing.T) {
	small := map[string]string{"size": "64", "width": "0.125", "classes": "4"}
	train := &autodiff.Options{Optimizer: "momentum"}
	for _, c := range []struct {
		name    string
		file    []byte
		opt     passes.Options
		percent []float64
	}{
		{"tiny_resnet8, training", network(t, "tiny_resnet8", map[string]int64{"batch": 4}, nil), passes.Options{Train: train}, []float64{65}},
		{"resnet18, training", network(t, "resnet18", map[string]int64{"batch": 4}, small), passes.Options{Train: train}, []float64{65}},
		{"resnet18, training, program order", network(t, "resnet18", map[string]int64{"batch": 4}, small), passes.Options{Train: train, Schedule: "program", NoInplace: true, Effort: schedule.EffortFast}, []float64{60}},
		{"mobilenet_v2, training, last updates", network(t, "mobilenet_v2", map[string]int64{"batch": 4}, small), passes.Options{Train: train, UpdatesLast: true, Effort: schedule.EffortFast}, []float64{60}},
		{"tiny_resnet8, no views", network(t, "tiny_resnet8", map[string]int64{"batch": 4}, nil), passes.Options{Train: train, NoViews: true, Effort: schedule.EffortFast}, []float64{70}},
		{"resnet18, no views", network(t, "resnet18", map[string]int64{"batch": 4}, small), passes.Options{Train: train, NoViews: true, Effort: schedule.EffortFast}, []float64{70}},
		{"vit, fused gradients", network(t, "vit_b_16", map[string]int64{"batch": 4}, map[string]string{"size": "64", "layers": "8", "hidden": "32", "ff": "64", "heads": "2", "classes": "4"}), passes.Options{Train: &autodiff.Options{FusedGradients: autodiff.FuseAll}, Effort: schedule.EffortFast}, []float64{85}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "resnet18, training" || c.name == "resnet18, no views" {
				sweep.Only(t) // tiny_resnet8 is the small case of both
			}
			b, plain := accepted(t, c.file, c.opt)
			want := results(t, b, plain)
			for _, percent := range c.percent {
				opt := c.opt
				opt.Limit = &passes.Limit{Percent: percent}
				b, p := accepted(t, c.file, opt)
				s := p.Summary
				if limit := int64(percent / 100 * float64(plain.Summary.PeakBytes)); s.PeakBytes > limit || s.LimitBytes != limit || s.PlainPeakBytes != plain.Summary.PeakBytes {
					t.Errorf("%v %%: peak %d, limit %d, plain peak %d: expected at most %d of %d", percent, s.PeakBytes, s.LimitBytes, s.PlainPeakBytes, limit, plain.Summary.PeakBytes)
				}
				if s.RecomputedNodes == 0 || s.ExtraCostPercent <= 0 || *s.ExtraCostBound > s.ExtraCostPercent || s.ProgramPeakBytes != plain.Summary.ProgramPeakBytes {
					t.Errorf("%v %%: %+v", percent, *s.Limited)
				}
				same(t, results(t, b, p), want)
				readStatisticsOnce(t, b)
			}
		})
	}
}

// readStatisticsOnce fails if a BatchNormalization reads a tensor that another
// one overwrites: ONNX Runtime would overwrite it twice.
func readStatisticsOnce(t *testing.T, file []byte) {
	t.Helper()
	m, err := onnx.Parse("out.onnx", file)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range m.Graph.Nodes {
		for _, in := range n.Inputs {
			if in < 0 {
				continue
			}
			if x := m.Graph.Tensors[in]; x.Maker >= 0 && n.Op == "BatchNormalization" && m.Graph.Nodes[x.Maker].Op == n.Op && x.Out > 0 {
				t.Errorf("%s reads %q, which %s makes", m.Graph.Label(graph.NodeID(i)), x.Name, m.Graph.Label(x.Maker))
			}
		}
	}
}

// unetLike is an inference model with two scales whose skip connections can be
// recomputed.
func unetLike(t testing.TB) []byte {
	g := &graph.Graph{Name: "unet"}
	input := func(name string, shape ...graph.Dim) graph.TensorID {
		id := g.NewTensor(name)
		g.Tensors[id].Declared = &graph.Declared{Type: graph.TensorOf(graph.Float32, shape...), Symbols: make([]string, len(shape))}
		return id
	}
	node := func(op string, attrs []*graph.Attr, inputs ...graph.TensorID) graph.TensorID {
		out := g.NewTensor(fmt.Sprintf("t%d", len(g.Nodes)))
		g.Nodes = append(g.Nodes, &graph.Node{Name: fmt.Sprintf("%s%d", strings.ToLower(op), len(g.Nodes)), Op: op, Attrs: attrs, Inputs: inputs, Outputs: []graph.TensorID{out}})
		return out
	}
	ints := func(name string, v ...int64) *graph.Attr {
		return &graph.Attr{Name: name, Type: graph.AttrInts, Ints: v}
	}
	x := input("x", 1, 4, 16, 16)
	g.Tensors[x].Input, g.Inputs = true, []graph.TensorID{x}
	pool := []*graph.Attr{ints("kernel_shape", 2, 2), ints("strides", 2, 2)}
	wide := node("Concat", []*graph.Attr{{Name: "axis", Type: graph.AttrInt, Int: 1}}, x, x, x, x, x, x)
	skip := node("Relu", nil, wide)
	half := node("MaxPool", pool, skip)
	deep := half
	for range 6 { // needs three buffers of a quarter of the size at a time
		a, b := node("Sigmoid", nil, deep), node("Tanh", nil, deep)
		deep = node("Mul", nil, a, b)
	}
	wider := node("Concat", []*graph.Attr{{Name: "axis", Type: graph.AttrInt, Int: 1}}, deep, deep, deep, deep)
	narrow := node("Softmax", nil, wider)
	less := node("ReduceMean", nil, narrow)
	y := node("Add", nil, skip, less)
	out := node("ReduceMax", []*graph.Attr{{Name: "keepdims", Type: graph.AttrInt, Int: 1}}, y)
	g.Outputs = []graph.TensorID{out}
	g.Tensors[out].Output = true
	g.Tensors[out].Declared = &graph.Declared{Type: graph.TensorOf(graph.Float32, 1, 1, 1, 1), Symbols: make([]string, 4)}
	g.Link()
	return file(t, &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 17}}, Graph: g})
}

// TestLimitOfInference: skip connections are recomputed where they are read.
func TestLimitOfInference(t *testing.T) {
	model := unetLike(t)
	b, plain := accepted(t, model, passes.Options{})
	want := results(t, b, plain)
	b, p := accepted(t, model, passes.Options{Limit: &passes.Limit{Bytes: plain.Summary.PeakBytes - 20000}})
	if s := p.Summary; s.RecomputedNodes == 0 || s.PeakBytes > plain.Summary.PeakBytes-20000 {
		t.Errorf("peak %d of %d, %d nodes run again", s.PeakBytes, plain.Summary.PeakBytes, s.RecomputedNodes)
	}
	same(t, results(t, b, p), want)
}

// TestLimitThatIsNone: a limit above the best order's peak changes nothing and
// costs nothing.
func TestLimitThatIsNone(t *testing.T) {
	model := unetLike(t)
	_, plain := accepted(t, model, passes.Options{})
	_, p := accepted(t, model, passes.Options{Limit: &passes.Limit{Percent: 100}})
	if s := p.Summary; s.RecomputedNodes != 0 || s.ExtraCostPercent != 0 || *s.ExtraCostBound != 0 || s.LimitBytes != plain.Summary.PeakBytes {
		t.Errorf("%+v", *s.Limited)
	}
	if len(p.Steps) != len(plain.Steps) {
		t.Errorf("%d steps, expected %d", len(p.Steps), len(plain.Steps))
	}
}

// TestLimitThatIsImpossible: the error names the node that cannot meet the limit,
// and its tensors.
func TestLimitThatIsImpossible(t *testing.T) {
	m, err := onnx.Parse("in.onnx", unetLike(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = passes.Optimize(t.Context(), m, passes.Options{Limit: &passes.Limit{Bytes: 1000}})
	var e *passes.LimitError
	if !errors.As(err, &e) || !e.Impossible || e.Node == "" || len(e.Tensors) == 0 || e.NeedBytes <= 1000 || e.LowestBytes <= 1000 {
		t.Fatalf("error %v (%+v)", err, e)
	}
	for _, word := range []string{"limit of 1000 B: impossible: node ", e.Node, e.Tensors[0], "the lowest limit with a plan is "} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q lacks %q", err, word)
		}
	}
	// There is a plan for the limit that the message calls the lowest.
	m, err = onnx.Parse("in.onnx", unetLike(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := passes.Optimize(t.Context(), m, passes.Options{Limit: &passes.Limit{Bytes: e.LowestBytes}}); err != nil {
		t.Error(err)
	}
}

// TestCosts: measured costs apply to the nodes of their names; other costs are
// estimated for the device. The cost of a plan follows from them.
func TestCosts(t *testing.T) {
	model := unetLike(t)
	_, plain := accepted(t, model, passes.Options{})
	limit := &passes.Limit{Bytes: plain.Summary.PeakBytes - 20000}
	cost := func(opt passes.Options, node string) int64 {
		opt.Limit = limit
		_, p := accepted(t, model, opt)
		for _, s := range p.Steps {
			if s.Name == node {
				return s.CostNS
			}
		}
		t.Fatalf("no step %q", node)
		return 0
	}
	if got := cost(passes.Options{}, "relu1"); got != 1000 { // small: the least cost of a node
		t.Errorf("relu1 costs %d ns by default", got)
	}
	slow := passes.Device{FLOPS: 1e6, Bandwidth: 1e6}
	if got := cost(passes.Options{Device: slow}, "relu1"); got != 24*16*16*4*2*1000 { // reads and writes, at one byte per microsecond
		t.Errorf("relu1 costs %d ns on a slow device", got)
	}
	if got := cost(passes.Options{Device: passes.Device{FLOPS: 1e3, Bandwidth: 1e9}}, "relu1"); got != 24*16*16*1e6 { // one operation per element
		t.Errorf("relu1 costs %d ns on a device that cannot compute", got)
	}
	if got := cost(passes.Options{Costs: map[string]int64{"relu1": 12345}}, "relu1"); got != 12345 {
		t.Errorf("relu1 costs %d ns, measured 12345", got)
	}
	for _, opt := range []passes.Options{
		{Device: passes.Device{FLOPS: -1, Bandwidth: 1}},
		{Device: passes.Device{FLOPS: 1}},
		{Device: passes.Device{FLOPS: math.NaN(), Bandwidth: 1}},
		{Costs: map[string]int64{"relu1": -1}},
		{Limit: &passes.Limit{Bytes: -1}},
		{Limit: &passes.Limit{Percent: math.NaN()}},
	} {
		m, err := onnx.Parse("in.onnx", model)
		if err != nil {
			t.Fatal(err)
		}
		var option *passes.OptionError
		if _, err := passes.Optimize(t.Context(), m, opt); !errors.As(err, &option) {
			t.Errorf("%+v: error %v", opt, err)
		}
	}
}

// randomGraph builds a model with many kinds of nodes: views, several outputs,
// bodies that capture tensors, tensors that nobody reads.
func randomGraph(t testing.TB, draw *rand.Rand) []byte {
	g := &graph.Graph{Name: "random"}
	declare := func(id graph.TensorID) {
		g.Tensors[id].Declared = &graph.Declared{Type: graph.TensorOf(graph.Float32, 4, 6), Symbols: make([]string, 2)}
	}
	constant := func(name string, ints ...int64) graph.TensorID {
		id := g.NewTensor(name)
		g.Tensors[id].Data = &graph.Data{Name: name, Type: graph.Int64, Dims: []int64{int64(len(ints))}, Ints: ints, Bytes: 8 * int64(len(ints))}
		return id
	}
	square, flat := constant("square", 4, 6), constant("flat", 24)
	x := g.NewTensor("x")
	declare(x)
	g.Tensors[x].Input, g.Inputs = true, []graph.TensorID{x}
	p := g.NewTensor("p")
	g.Tensors[p].Declared = &graph.Declared{Type: graph.TensorOf(graph.Bool)}
	g.Tensors[p].Input = true
	g.Inputs = append(g.Inputs, p)
	made := []graph.TensorID{x} // of shape 4 by 6
	any := func() graph.TensorID { return made[len(made)-1-draw.IntN(min(len(made), 6))] }
	node := func(op string, outputs int, attrs []*graph.Attr, inputs ...graph.TensorID) []graph.TensorID {
		n := &graph.Node{Op: op, Attrs: attrs, Inputs: inputs}
		if draw.IntN(4) > 0 {
			n.Name = fmt.Sprintf("n%d", len(g.Nodes))
		}
		for range outputs {
			n.Outputs = append(n.Outputs, g.NewTensor(fmt.Sprintf("t%d", len(g.Tensors))))
		}
		g.Nodes = append(g.Nodes, n)
		return n.Outputs
	}
	axis := []*graph.Attr{{Name: "axis", Type: graph.AttrInt, Int: 0}}
	for range 6 + draw.IntN(16) {
		switch draw.IntN(8) {
		case 0:
			made = append(made, node("Reshape", 1, nil, node("Tanh", 1, nil, node("Reshape", 1, nil, any(), flat)[0])[0], square)[0])
		case 1:
			parts := node("Split", 2, []*graph.Attr{axis[0], {Name: "num_outputs", Type: graph.AttrInt, Int: 2}}, any())
			made = append(made, node("Concat", 1, axis, parts[draw.IntN(2)], parts[draw.IntN(2)])[0])
		case 2:
			made = append(made, node("LayerNormalization", 1+draw.IntN(3), nil, any(), node("ReduceMean", 1, []*graph.Attr{{Name: "keepdims", Type: graph.AttrInt}}, any(), constant(fmt.Sprintf("axes%d", len(g.Nodes)), 0))[0])[0])
		case 3:
			branch := func(name, op string, outer graph.TensorID) *graph.Attr {
				b := &graph.Graph{Name: name}
				in, out := b.NewTensor(g.Tensors[outer].Name), b.NewTensor(fmt.Sprintf("%s%d", name, len(g.Nodes)))
				b.Tensors[in].Capture, b.Captures = true, []graph.Capture{{Inner: in, Outer: outer}}
				b.Nodes = []*graph.Node{{Op: op, Inputs: []graph.TensorID{in}, Outputs: []graph.TensorID{out}}}
				b.Tensors[out].Output, b.Outputs = true, []graph.TensorID{out}
				b.Link()
				return &graph.Attr{Name: name, Type: graph.AttrGraph, Graph: b}
			}
			y := node("If", 1, []*graph.Attr{branch("then_branch", "Sigmoid", any()), branch("else_branch", "Softmax", any())}, p)
			g.Nodes[len(g.Nodes)-1].SetCaptures()
			made = append(made, y[0])
		case 4:
			made = append(made, node("Identity", 1, nil, any())[0])
		case 5:
			made = append(made, node("Softmax", 1, []*graph.Attr{{Name: "axis", Type: graph.AttrInt, Int: int64(draw.IntN(2))}}, any())[0])
		default:
			made = append(made, node([]string{"Add", "Mul", "Sub", "Max"}[draw.IntN(4)], 1, nil, any(), any())[0])
		}
	}
	outputs := []graph.TensorID{made[len(made)-1]}
	if other := made[draw.IntN(len(made)-1)]; other != x {
		outputs = append(outputs, other)
	}
	for _, id := range outputs {
		g.Outputs = append(g.Outputs, id)
		g.Tensors[id].Output = true
		declare(id)
	}
	g.Link()
	return file(t, &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 18}}, Graph: g})
}

// TestRepetitionsKeepResults: wherever nodes run again, the results are the same
// bit for bit.
func TestRepetitionsKeepResults(t *testing.T) {
	for seed := range uint64(120) {
		draw := rand.New(rand.NewPCG(seed, 7))
		b := randomGraph(t, draw)
		out, p := accepted(t, b, passes.Options{})
		want := results(t, out, p)
		m, err := onnx.Parse("in.onnx", b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ops.Infer(m, ops.Options{}); err != nil {
			t.Fatal(err)
		}
		var steps []graph.NodeID
		for i := range m.Graph.Nodes {
			for range draw.IntN(3) {
				if i > 0 {
					steps = append(steps, graph.NodeID(draw.IntN(i)))
				}
			}
			steps = append(steps, graph.NodeID(i))
		}
		names := outputs(m)
		made, err := m.Graph.Repeat(steps, graph.RepeatOptions{Views: seed%3 > 0, Optional: ops.Optional})
		if err != nil {
			t.Fatal(err)
		}
		if got := outputs(m); got != names {
			t.Fatalf("seed %d: outputs %s, expected %s", seed, got, names)
		}
		nodes := len(m.Graph.Nodes)
		out, p = accepted(t, file(t, m), passes.Options{})
		if len(p.Steps) != nodes || len(made.Of) != nodes {
			t.Fatalf("seed %d: %d steps of %d nodes", seed, len(p.Steps), nodes)
		}
		same(t, results(t, out, p), want)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// outputs lists the names of a model's outputs.
func outputs(m *graph.Model) string {
	var names []string
	for _, t := range m.Graph.Outputs {
		names = append(names, m.Graph.Tensors[t].Name)
	}
	return strings.Join(names, " ")
}

// TestFrontier: a larger limit never costs more than a smaller one, the bound is
// never above the plan, and the impossible limit comes last.
func TestFrontier(t *testing.T) {
	for _, effort := range []schedule.Effort{schedule.EffortFast, schedule.EffortDefault} {
		if effort == schedule.EffortDefault && !sweep.On() {
			continue
		}
		b := network(t, "resnet18", map[string]int64{"batch": 2}, map[string]string{"size": "64", "width": "0.125", "classes": "4"})
		_, p := accepted(t, b, passes.Options{Train: &autodiff.Options{}, Effort: effort, Frontier: true})
		if p.Summary.Limited != nil || len(p.Frontier) < 3 {
			t.Fatalf("limit %v, %d points", p.Summary.Limited, len(p.Frontier))
		}
		before, cost := p.Summary.PeakBytes, 0.0
		for i, x := range p.Frontier {
			if x.LimitBytes >= before || x.Impossible != (i == len(p.Frontier)-1) {
				t.Errorf("effort %v: point %d: limit %d after %d, impossible %t", effort, i, x.LimitBytes, before, x.Impossible)
			}
			if before = x.LimitBytes; x.ExtraCostPercent == nil {
				continue
			}
			if *x.ExtraCostPercent < cost || x.ExtraCostBound == nil || *x.ExtraCostBound > *x.ExtraCostPercent {
				t.Errorf("effort %v: limit %d costs %v (bound %v), one above it %v", effort, x.LimitBytes, *x.ExtraCostPercent, x.ExtraCostBound, cost)
			}
			cost = *x.ExtraCostPercent
		}
	}
}
