package passes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// long is a classifier whose activations are large enough to swap, 1 MiB each,
// and quick to compute: 10 pointwise convolutions, each followed by Tanh.
func long(t testing.TB) []byte { return longOf(t, "") }

// longOf is long for batches of any length, if the dimension has a name.
func longOf(t testing.TB, batch string) []byte {
	g := &graph.Graph{Name: "long"}
	declare := func(id graph.TensorID, shape ...graph.Dim) {
		d := &graph.Declared{Type: graph.TensorOf(graph.Float32, shape...), Symbols: make([]string, len(shape))}
		if batch != "" {
			d.Type.Shape[0], d.Symbols[0] = graph.Unknown, batch
		}
		g.Tensors[id].Declared = d
	}
	node := func(op string, inputs ...graph.TensorID) graph.TensorID {
		out := g.NewTensor(fmt.Sprintf("t%d", len(g.Nodes)))
		g.Nodes = append(g.Nodes, &graph.Node{Name: fmt.Sprintf("%s%d", strings.ToLower(op), len(g.Nodes)), Op: op, Inputs: inputs, Outputs: []graph.TensorID{out}})
		return out
	}
	x := g.NewTensor("x")
	declare(x, 1, 4, 256, 256)
	g.Tensors[x].Input, g.Inputs = true, []graph.TensorID{x}
	y := x
	for k := range 10 {
		w := g.NewTensor(fmt.Sprintf("w%d", k))
		d := &graph.Data{Name: g.Tensors[w].Name, Type: graph.Float32, Dims: []int64{4, 4, 1, 1}, Bytes: 64}
		for i := range 16 {
			d.Floats = append(d.Floats, float64((i*7+k)%11)/16-0.25)
		}
		g.Tensors[w].Data = d
		y = node("Tanh", node("Conv", y, w))
	}
	y = node("Flatten", node("GlobalAveragePool", y))
	declare(y, 1, 4)
	g.Outputs, g.Tensors[y].Output = []graph.TensorID{y}, true
	g.Link()
	return file(t, &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 18}}, Graph: g})
}

// transfers counts the SwapOut and SwapIn nodes of a file.
func transfers(t testing.TB, b []byte) (out, in int) {
	t.Helper()
	m, err := onnx.Parse("out.onnx", b)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range m.Graph.Nodes {
		if n.Domain == graph.SwapDomain && n.Op == graph.SwapOut {
			out++
		}
		if n.Domain == graph.SwapDomain && n.Op == graph.SwapIn {
			in++
		}
	}
	return out, in
}

// TestSwap: with a host, plans stay below their limits, are valid, and give the
// same bits as plans without a limit.
func TestSwap(t *testing.T) {
	train := &autodiff.Options{Optimizer: "momentum"}
	for _, c := range []struct {
		name    string
		opt     passes.Options
		percent float64
		link    int64
		alone   bool // no node runs again
	}{
		{"swapping alone, no step waits", passes.Options{}, 70, 100e9, true},
		{"swapping alone, steps wait", passes.Options{}, 60, 40e9, true},
		{"both", passes.Options{}, 60, 40e9, false},
		{"default effort, the arena fits", passes.Options{Limit: &passes.Limit{Arena: true}, Effort: schedule.EffortDefault}, 70, 40e9, false},
		{"no views, nothing in place, updates last", passes.Options{NoViews: true, NoInplace: true, UpdatesLast: true}, 70, 40e9, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			opt := c.opt
			opt.Train, opt.Limit = train, nil
			if c.opt.Limit == nil {
				opt.Effort = schedule.EffortFast
			}
			b, plain := accepted(t, long(t), opt)
			want := results(t, b, plain)
			opt.Limit = &passes.Limit{Percent: c.percent, Arena: c.opt.Limit != nil}
			opt.Host = &passes.Host{Link: c.link, NoRecompute: c.alone}
			b, p := accepted(t, long(t), opt)
			s := p.Summary
			held := s.PeakBytes
			if opt.Limit.Arena {
				held = s.ArenaBytes
			}
			if held > s.LimitBytes || s.HostLink != c.link || s.ExtraCostBound != nil {
				t.Errorf("%d bytes are held: %+v", held, *s.Limited)
			}
			if out, in := transfers(t, b); out != s.SwappedBuffers || in != out || out == 0 {
				t.Errorf("%d tensors leave and %d return: expected %d", out, in, s.SwappedBuffers)
			}
			if waits := s.WaitingPercent > 0.01; c.alone && waits != (c.link < 100e9) {
				t.Errorf("%+v", *s.Limited)
			}
			for _, step := range p.Steps {
				if c.alone && step.Again != nil && step.Op != "Reshape" { // a view of a tensor that was swapped in
					t.Errorf("%s runs again", step.Name)
				}
			}
			if s.TotalBytes != s.ArenaBytes+s.ResidentBytes || len(p.Pools) != 3 || p.Pools[2].Name != plan.Host || p.Pools[2].Bytes > s.SwappedBytes {
				t.Errorf("total %d, pools %v", s.TotalBytes, p.Pools)
			}
			if s.ProgramPeakBytes != plain.Summary.ProgramPeakBytes {
				t.Errorf("program order's peak is %d, without a limit %d", s.ProgramPeakBytes, plain.Summary.ProgramPeakBytes)
			}
			same(t, results(t, b, p), want)
		})
	}
}

// TestSwapAgain plans a file with transfers again, with and without a limit and a
// host.
func TestSwapAgain(t *testing.T) {
	opt := passes.Options{Train: &autodiff.Options{}, Effort: schedule.EffortFast, Limit: &passes.Limit{Percent: 85}, Host: &passes.Host{Link: 40e9}}
	b, first := accepted(t, long(t), opt)
	want := results(t, b, first)
	if first.Summary.SwappedBuffers == 0 {
		t.Fatal("nothing leaves")
	}
	opt.Train, opt.Limit, opt.Host = nil, nil, nil
	again, p := accepted(t, b, opt)
	if out, in := transfers(t, again); out != first.Summary.SwappedBuffers || in != out || p.Pools[2].Name != plan.Host {
		t.Errorf("%d leave and %d return, pools %v", out, in, p.Pools)
	}
	same(t, results(t, again, p), want)
	for _, host := range []*passes.Host{nil, {Link: 40e9}} {
		opt.Limit, opt.Host = &passes.Limit{Bytes: p.Summary.PeakBytes * 9 / 10}, host
		again, q := accepted(t, b, opt)
		if q.Summary.PeakBytes > q.Summary.LimitBytes || q.Summary.SwappedBuffers < first.Summary.SwappedBuffers {
			t.Errorf("%+v", *q.Summary.Limited)
		}
		same(t, results(t, again, q), want)
	}
}

// waiting is an inference model in which a tensor of 1 MiB, or views of it, wait.
func waiting(t testing.TB, viewed bool) []byte {
	g := &graph.Graph{Name: "waiting"}
	declared := func(id graph.TensorID) *graph.Declared {
		return &graph.Declared{Type: graph.TensorOf(graph.Float32, 64, 4096), Symbols: make([]string, 2)}
	}
	node := func(op string, inputs ...graph.TensorID) graph.TensorID {
		out := g.NewTensor(fmt.Sprintf("t%d", len(g.Nodes)))
		g.Nodes = append(g.Nodes, &graph.Node{Name: fmt.Sprintf("%s%d", strings.ToLower(op), len(g.Nodes)), Op: op, Inputs: inputs, Outputs: []graph.TensorID{out}})
		return out
	}
	x := g.NewTensor("x")
	g.Tensors[x].Declared, g.Tensors[x].Input, g.Inputs = declared(x), true, []graph.TensorID{x}
	wait := node("Relu", x)
	late := wait
	if viewed {
		late = node("Reshape", wait, node("Shape", wait))
	}
	deep := node("Exp", late)
	for range 8 {
		deep = node("Add", node("Softmax", node("Sigmoid", deep)), node("Tanh", deep))
	}
	y := node("Sub", node("Mul", deep, late), wait)
	g.Outputs = []graph.TensorID{y}
	g.Tensors[y].Declared, g.Tensors[y].Output = declared(y), true
	g.Link()
	return file(t, &graph.Model{IRVersion: 7, Opsets: []graph.Opset{{Version: 17}}, Graph: g})
}

// TestSwapOfInference: the waiting tensor is swapped out and in for its readers
// and the readers of its views, also in a file of an IR version without
// functions.
func TestSwapOfInference(t *testing.T) {
	for _, viewed := range []bool{false, true} {
		model := waiting(t, viewed)
		b, plain := accepted(t, model, passes.Options{})
		want := results(t, b, plain)
		b, p := accepted(t, model, passes.Options{Limit: &passes.Limit{Percent: 80}, Host: &passes.Host{Link: 100e9, NoRecompute: true}})
		if s := p.Summary; s.SwappedBuffers != 1 || s.RecomputedNodes > 1 || s.WaitingPercent <= 0 { // a view is recomputed
			t.Errorf("viewed: %t: %+v", viewed, *s.Limited)
		}
		m, err := onnx.Parse("out.onnx", b)
		if err != nil {
			t.Fatal(err)
		}
		if m.IRVersion != 8 || m.Opset(graph.SwapDomain) != 1 || len(m.Functions) != 2 {
			t.Errorf("IR version %d, opsets %v, %d functions", m.IRVersion, m.Opsets, len(m.Functions))
		}
		same(t, results(t, b, p), want)
	}
}

// TestSwapFrontier: with a host, no limit costs more, and no bound is claimed.
func TestSwapFrontier(t *testing.T) {
	opt := passes.Options{Train: &autodiff.Options{}, Frontier: true, Effort: schedule.EffortFast}
	_, plain := accepted(t, long(t), opt)
	opt.Host = &passes.Host{Link: 20e9}
	_, p := accepted(t, long(t), opt)
	if len(p.Frontier) == 0 {
		t.Fatal("no frontier")
	}
	for i, f := range p.Frontier {
		if f.ExtraCostBound != nil {
			t.Errorf("limit %d: a bound of %v", f.LimitBytes, *f.ExtraCostBound)
		}
		if i >= len(plain.Frontier) || plain.Frontier[i].ExtraCostPercent == nil {
			continue
		}
		if f.ExtraCostPercent == nil || *f.ExtraCostPercent > *plain.Frontier[i].ExtraCostPercent {
			t.Errorf("limit %d: %v with a host, %v without", f.LimitBytes, f.ExtraCostPercent, *plain.Frontier[i].ExtraCostPercent)
		}
	}
}

// TestSwapRefuses: a link without bandwidth, and a model with a SwapOut of its
// own, are refused.
func TestSwapRefuses(t *testing.T) {
	m, err := onnx.Parse("in.onnx", waiting(t, false))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := passes.Optimize(t.Context(), m, passes.Options{Host: &passes.Host{}}); err == nil || !strings.Contains(err.Error(), "link to the host of 0 bytes per second") {
		t.Errorf("%v", err)
	}
	if m, err = onnx.Parse("in.onnx", waiting(t, false)); err != nil {
		t.Fatal(err)
	}
	if err := m.AddSwaps(); err != nil {
		t.Fatal(err)
	}
	m.Functions[0].Body.Nodes[0].Op = "Relu"
	_, err = passes.Optimize(t.Context(), m, passes.Options{Limit: &passes.Limit{Percent: 80}, Host: &passes.Host{Link: 800e9, NoRecompute: true}})
	if err == nil || !strings.Contains(err.Error(), `function "SwapOut" of domain onnxmem has another body`) {
		t.Errorf("%v", err)
	}
}
