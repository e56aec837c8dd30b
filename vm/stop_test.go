package vm_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

var errEnough = errors.New("that is enough")

// If the context ends in the middle of a node, the run's error names the node and the
// context's cause. Afterwards the session gives the same bits as before.
func TestRunStops(t *testing.T) {
	for _, workers := range []int{1, 3} {
		p, s := session(t, chain(t), passes.Options{}, vm.Options{Workers: workers})
		inputs := noise(p)
		name := p.Outputs()[0].Name
		out, err := s.Run(t.Context(), inputs)
		if err != nil {
			t.Fatal(err)
		}
		want := bytes.Clone(out[name].Data)

		ctx, cancel := context.WithCancelCause(t.Context())
		stop := s.SetRun(1, func(_ *kernel.Invocation, w *work.Pool) error {
			cancel(errEnough)
			for {
				w.For(100, func(int, int) {})
			}
		})
		for range 2 { // a context that has ended stops every run
			_, err = s.Run(ctx, inputs)
			if !errors.Is(err, vm.ErrStopped) || !errors.Is(err, errEnough) || !strings.Contains(err.Error(), "stopped: that is enough") {
				t.Fatalf("got %v", err)
			}
		}
		stop()

		ctx, cancel = context.WithCancelCause(t.Context())
		stop = s.SetRun(1, func(_ *kernel.Invocation, w *work.Pool) error {
			cancel(errEnough)
			for {
				w.Poll()
			}
		})
		_, err = s.Run(ctx, inputs)
		var at *graph.Error
		if !errors.As(err, &at) || at.Node != s.Running() || at.Node == "" || at.File == "" {
			t.Errorf("got %v, while %s ran", err, s.Running())
		}
		stop()
		if out, err = s.Run(t.Context(), inputs); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(out[name].Data, want) {
			t.Errorf("%d workers: other bits after a run that was stopped", workers)
		}
	}
}

// endless is a Loop without a trip count whose condition stays true. The body passes the
// condition on, with or without a node, and appends a number to a scan output.
func endless(t *testing.T, node bool, limit ...int64) *vm.Session {
	t.Helper()
	body := &graph.Graph{Name: "body"}
	typed := func(g *graph.Graph, name string, d graph.DType) graph.TensorID {
		id := g.NewTensor(name)
		g.Tensors[id].Declared = &graph.Declared{Type: graph.TensorOf(d), Symbols: []string{}}
		return id
	}
	i, on, v := typed(body, "i", graph.Int64), typed(body, "on", graph.Bool), typed(body, "v", graph.Float32)
	body.Inputs, body.Outputs = []graph.TensorID{i, on, v}, []graph.TensorID{on, v, v}
	if node {
		next := typed(body, "next", graph.Bool)
		body.Nodes = []*graph.Node{{Name: "again", Op: "Identity", Inputs: []graph.TensorID{on}, Outputs: []graph.TensorID{next}}}
		body.Outputs[0] = next
	}
	g := &graph.Graph{Name: "g"}
	cond, x, y := typed(g, "cond", graph.Bool), typed(g, "x", graph.Float32), typed(g, "y", graph.Float32)
	rows := g.NewTensor("rows")
	g.Inputs, g.Outputs = []graph.TensorID{cond, x}, []graph.TensorID{y, rows}
	g.Nodes = []*graph.Node{{
		Name: "forever", Op: "Loop", Inputs: []graph.TensorID{graph.None, cond, x}, Outputs: []graph.TensorID{y, rows},
		Attrs: []*graph.Attr{{Name: "body", Type: graph.AttrGraph, Graph: body}},
	}}
	p, err := planGraph(g, []graph.Opset{{Version: 21}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	opt := vm.Options{Workers: 1}
	if len(limit) > 0 {
		opt.MemoryLimit = limit[0]
	}
	return newSession(t, p, opt)
}

// An endless loop is stopped between two iterations.
func TestEndlessLoopsStop(t *testing.T) {
	for _, node := range []bool{true, false} {
		s := endless(t, node)
		ctx, cancel := context.WithCancelCause(t.Context())
		begun := make(chan struct{})
		s.BeforeNode(func(label string) {
			if strings.Contains(label, "forever") {
				close(begun)
			}
		})
		go func() {
			<-begun
			cancel(errEnough)
		}()
		_, err := s.Run(ctx, map[string]vm.Value{"cond": octets(graph.Bool, []int{}, 1), "x": shaped([]int{}, 1)})
		if !errors.Is(err, vm.ErrStopped) || !errors.Is(err, errEnough) {
			t.Errorf("got %v", err)
		}
	}
}

// A training step that fails after it began to update parameters loses all of them; a step
// that fails earlier keeps them. All updates run last, since a plan may begin with those that
// need no gradient, as of Adam's moments, and then no node fails earlier.
func TestTornStates(t *testing.T) {
	p, r := program(t, classifier(t), passes.Options{Train: &autodiff.Options{Optimizer: "adam"}, UpdatesLast: true})
	first := slices.IndexFunc(r.Plan.Steps, func(s plan.Step) bool {
		return strings.HasPrefix(s.Name, "step/") || strings.Contains(s.Name, ".update/")
	})
	s := newSession(t, p, vm.Options{Workers: 1})
	if err := s.Load(r.Step.Params); err != nil {
		t.Fatal(err)
	}
	advance(t, s, 1)
	before := t.TempDir() + "/before.onnx"
	if err := s.Save(before); err != nil {
		t.Fatal(err)
	}
	fails := func(node int) {
		t.Helper()
		undo := s.SetRun(node, func(*kernel.Invocation, *work.Pool) error { return errEnough })
		defer undo()
		if _, err := s.Run(t.Context(), batch()); !errors.Is(err, errEnough) {
			t.Fatalf("got %v", err)
		}
	}
	fails(0)
	advance(t, s, 1)
	fails(first - 1) // the last node before all updates
	advance(t, s, 1)
	fails(len(r.Plan.Steps) - 1)
	if err := s.Save(t.TempDir() + "/torn.onnx"); err == nil || !strings.Contains(err.Error(), "has no value") {
		t.Errorf("saving: %v", err)
	}
	if _, err := s.Run(t.Context(), batch()); err == nil || !strings.Contains(err.Error(), "without a first value") {
		t.Errorf("running: %v", err)
	}
	f, err := onnx.Open(before, onnx.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := s.Load(f.Model); err != nil {
		t.Fatal(err)
	}
	advance(t, s, 1)
}

// countedContext is a context that ends after a number of calls of Err.
type countedContext struct {
	context.Context
	cancel context.CancelCauseFunc
	left   int
}

func after(t *testing.T, asked int) *countedContext {
	ctx, cancel := context.WithCancelCause(t.Context())
	return &countedContext{ctx, cancel, asked}
}

func (e *countedContext) Err() error {
	if e.left--; e.left == 0 {
		e.cancel(errEnough)
	}
	return e.Context.Err()
}

// The memory that a stopped run allocated for dynamic tensors, here the rows of a loop, is
// reused.
func TestStoppedRunsLeaveNoMemory(t *testing.T) {
	s := endless(t, true)
	var taken int64
	for i := range 10 {
		_, err := s.Run(after(t, 5000), map[string]vm.Value{"cond": octets(graph.Bool, []int{}, 1), "x": shaped([]int{}, 1)})
		if !errors.Is(err, errEnough) {
			t.Fatalf("got %v", err)
		}
		switch now := s.Memory().DynamicBytes; {
		case i == 0:
			taken = now
		case now != taken:
			t.Fatalf("%d bytes after %d runs that were stopped, %d after one", now, i+1, taken)
		}
	}
	if taken < 4*4000 {
		t.Errorf("%d bytes are dynamic, expected some thousand rows", taken)
	}
}

// A loop fails when its rows exceed the memory limit.
func TestEndlessRowsAreLimited(t *testing.T) {
	s := endless(t, true, 1<<20)
	_, err := s.Run(after(t, 1<<20), map[string]vm.Value{"cond": octets(graph.Bool, []int{}, 1), "x": shaped([]int{}, 1)})
	var over *vm.LimitError
	if !errors.As(err, &over) || over.Bytes > 1<<20 || !strings.Contains(err.Error(), "forever") {
		t.Errorf("got %v", err)
	}
}
