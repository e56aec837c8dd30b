package vm_test

import (
	"errors"
	"math"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// A limit one byte below the session's memory fails when the session is created; with one
// byte more, the session runs.
func TestMemoryLimit(t *testing.T) {
	p, r := trained(t, classifier(t))
	s := newSession(t, p, vm.Options{Workers: 1})
	needed := s.Memory()
	s.Close()
	if needed.Bytes() != needed.ArenaBytes+needed.StateBytes+needed.ScratchBytes+needed.TableBytes+needed.HeapBytes || needed.HeapBytes == 0 || needed.ArenaBytes == 0 || needed.StateBytes == 0 || needed.ScratchBytes == 0 {
		t.Errorf("%+v", needed)
	}
	_, err := p.NewSession(vm.Options{Workers: 1, MemoryLimit: needed.Bytes() - 1})
	var over *vm.LimitError
	var at *graph.Error
	if !errors.As(err, &over) || over.Needs != needed || over.Taken+over.Bytes != needed.Bytes() || over.Limit != needed.Bytes()-1 || over.Free ||
		!errors.As(err, &at) || at.Node == "" ||
		!regexp.MustCompile(`classifier\.onnx: .*: needs .* B\): arena .*B, parameters and states .*B, scratch .*B, tables .*B: expected at most .* B\)$`).MatchString(err.Error()) {
		t.Errorf("got %v", err)
	}
	_, err = p.NewSession(vm.Options{Workers: 1, MemoryLimit: needed.ArenaBytes})
	if !errors.As(err, &over) || over.Bytes != needed.ArenaBytes+needed.StateBytes || over.Taken != 0 {
		t.Errorf("got %v", err)
	}
	s = newSession(t, p, vm.Options{Workers: 1, MemoryLimit: needed.Bytes()})
	if err := s.Load(r.Step.Params); err != nil {
		t.Fatal(err)
	}
	advance(t, s, 1)
}

// The error names a planned tensor that exceeds the limit by itself.
func TestHugePlannedTensorsAreNamed(t *testing.T) {
	g := &graph.Graph{Name: "g"}
	shape, y := g.NewTensor("shape"), g.NewTensor("y")
	n := vm.Int64s([]int64{1 << 40}, 1)
	g.Tensors[shape].Data = &graph.Data{Name: "shape", Type: n.Type, Dims: []int64{1}, Raw: n.Data, Bytes: 8}
	g.Nodes = []*graph.Node{{Name: "fill", Op: "ConstantOfShape", Inputs: []graph.TensorID{shape}, Outputs: []graph.TensorID{y}}}
	g.Tensors[y].Output, g.Outputs = true, []graph.TensorID{y}
	p, err := planGraph(g, []graph.Opset{{Version: 21}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, limit := range []int64{1 << 30, 0} {
		_, err = p.NewSession(vm.Options{MemoryLimit: limit})
		var over *vm.LimitError
		if !errors.As(err, &over) || over.Bytes != 1<<42 || over.Free != (limit == 0) || !strings.Contains(err.Error(), `g.onnx: node "fill" (ConstantOfShape): tensor "y": needs 4.00 TiB`) {
			t.Errorf("got %v", err)
		}
	}
}

// The sessions of a program share its limit, and return their memory when they close.
func TestSessionsShareALimit(t *testing.T) {
	p, _ := trained(t, classifier(t))
	first := newSession(t, p, vm.Options{Workers: 1})
	needed := first.Memory().Bytes()
	for range 3 {
		opt := vm.Options{Workers: 1, MemoryLimit: 2*needed - 1}
		var over *vm.LimitError
		if _, err := p.NewSession(opt); !errors.As(err, &over) || over.Taken < needed {
			t.Fatalf("a second session in the memory of less than two: %v", err)
		}
		opt.MemoryLimit++
		second, err := p.NewSession(opt)
		if err != nil {
			t.Fatal(err)
		}
		second.Close()
	}
	if _, err := p.NewSession(vm.Options{MemoryLimit: -1}); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}

// Comparing takes the memory of two sessions.
func TestCheckCountsBothSessions(t *testing.T) {
	p, s := session(t, classifier(t), passes.Options{}, vm.Options{Workers: 1})
	needed := s.Memory()
	s.Close()
	inputs := noise(p)
	runs := []map[string]vm.Value{inputs}
	limit := needed.Bytes() + needed.PackedBytes + needed.DecodedBytes + needed.FileBytes + 64
	if _, err := newSession(t, p, vm.Options{Workers: 1, MemoryLimit: limit}).Run(t.Context(), inputs); err != nil {
		t.Fatal(err)
	}
	var over *vm.LimitError
	if _, err := p.CheckRun(t.Context(), runs, vm.Options{Workers: 1, MemoryLimit: limit}); !errors.As(err, &over) {
		t.Errorf("got %v", err)
	}
}

// Packed weights count, and the error says that the session would fit without them.
func TestPackedWeightsCount(t *testing.T) {
	p, s := session(t, classifier(t), passes.Options{}, vm.Options{Workers: 1, NoPack: true})
	needed := s.Memory()
	s.Close()
	if needed.PackedBytes != 0 {
		t.Fatalf("%+v", needed)
	}
	// Room for the weights, but not for the scratch behind them.
	limit := needed.Bytes() + needed.DecodedBytes + needed.FileBytes
	_, err := p.NewSession(vm.Options{Workers: 1, MemoryLimit: limit})
	var over *vm.LimitError
	if !errors.As(err, &over) || !over.FitsUnpacked() || over.Needs.PackedBytes == 0 || !strings.Contains(err.Error(), "packed weights") {
		t.Fatalf("got %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// A tensor whose size depends on data is refused before it is allocated, and the error
// names the node, the tensor, the bytes and the limit. A shape that overflows has a
// separate error: no limit would help.
func TestDynamicTensorsAreLimited(t *testing.T) {
	const huge = 1 << 40
	for _, c := range []struct {
		op    string
		in    func(n int64) []vm.Value // inputs that demand length n
		bytes int64                    // for length huge
	}{
		{"ConstantOfShape", func(n int64) []vm.Value { return list(vm.Int64s([]int64{n, 2}, 2)) }, huge * 8},
		{"Expand", func(n int64) []vm.Value { return list(vm.Float32s([]float32{1}), vm.Int64s([]int64{n}, 1)) }, huge * 4},
		{"Tile", func(n int64) []vm.Value { return list(vm.Float32s([]float32{1, 2}, 2), vm.Int64s([]int64{n}, 1)) }, huge * 8},
		{"Range", func(n int64) []vm.Value {
			return list(vm.Int64s([]int64{0}), vm.Int64s([]int64{n}), vm.Int64s([]int64{1}))
		}, huge * 8},
		{"Pad", func(n int64) []vm.Value { return list(vm.Float32s([]float32{1, 2}, 2), vm.Int64s([]int64{n, 0}, 2)) }, huge*4 + 8},
		{"HannWindow", func(n int64) []vm.Value { return list(vm.Int64s([]int64{n})) }, huge * 4},
		{"OneHot", func(n int64) []vm.Value {
			return list(vm.Int64s([]int64{1, 2}, 2), vm.Int64s([]int64{n}), vm.Float32s([]float32{0, 1}, 2))
		}, huge * 8},
		{"Resize", func(n int64) []vm.Value {
			return list(vm.Float32s([]float32{1, 2}, 2), absent, absent, vm.Int64s([]int64{n}, 1))
		}, huge * 4},
		{"MelWeightMatrix", func(n int64) []vm.Value {
			return list(vm.Int64s([]int64{n}), vm.Int64s([]int64{2}), vm.Int64s([]int64{8}), vm.Float32s([]float32{0}), vm.Float32s([]float32{4}))
		}, huge * 8},
	} {
		p, values := prepared(t, &nodeCase{op: c.op, in: c.in(huge)})
		s := newSession(t, p, vm.Options{MemoryLimit: 1 << 20})
		for range 2 { // the session still works
			_, err := s.Run(t.Context(), values)
			var over *vm.LimitError
			var at *graph.Error
			switch {
			case !errors.As(err, &over) || over.Bytes < c.bytes || over.Bytes > c.bytes+64 || over.Limit != 1<<20 || over.Taken >= 1<<20:
				t.Errorf("%s: got %v, want an error about %d bytes", c.op, err, c.bytes)
			case !errors.As(err, &at) || !strings.Contains(at.Node, c.op) || at.Tensor != "y0":
				t.Errorf("%s: got %v, want the node and the tensor", c.op, err)
			}
		}
		p, values = prepared(t, &nodeCase{op: c.op, in: c.in(math.MaxInt64 - 1)})
		_, err := newSession(t, p, vm.Options{}).Run(t.Context(), values)
		if err == nil || errors.As(err, new(*vm.LimitError)) || strings.Contains(err.Error(), "internal") {
			t.Errorf("%s beyond all bounds: got %v, want an error about the shape", c.op, err)
		}
	}
}

// The bytes of a string count before a kernel makes it, and those of the list that returns
// strings to the caller. What is made in vain is collected.
func TestStringsAreLimited(t *testing.T) {
	const half = 24 << 20
	heap := func() (m runtime.MemStats) {
		runtime.ReadMemStats(&m)
		return m
	}
	for _, c := range []struct {
		op     string
		in     []vm.Value
		bytes  int64
		tensor string
	}{
		{"StringConcat", list(vm.Texts([]string{strings.Repeat("a", half)}), vm.Texts([]string{strings.Repeat("b", half)})), 2 * half, ""},
		{"Expand", list(vm.Texts([]string{"a"}), vm.Int64s([]int64{3 << 20}, 1)), 16 * 3 << 20, "y0"},
	} {
		p, values := prepared(t, &nodeCase{op: c.op, in: c.in})
		s := newSession(t, p, vm.Options{MemoryLimit: 64 << 20})
		before := heap().TotalAlloc
		_, err := s.Run(t.Context(), values)
		var over *vm.LimitError
		var at *graph.Error
		if !errors.As(err, &over) || over.Bytes != c.bytes || !errors.As(err, &at) || at.Tensor != c.tensor || at.Tensor == "" && !strings.Contains(at.Node, c.op) {
			t.Errorf("%s: got %v, want an error about %d bytes", c.op, err, c.bytes)
		}
		if made := heap().TotalAlloc - before; made > half {
			t.Errorf("%s: %d bytes were allocated before the refusal", c.op, made)
		}
		s.Close()
		s = newSession(t, p, vm.Options{MemoryLimit: 128 << 20})
		for range 2 { // the second run has the memory of the first
			if _, err := s.Run(t.Context(), values); err != nil {
				t.Errorf("%s: %v", c.op, err)
			}
		}
	}
	p, values := prepared(t, &nodeCase{op: "StringConcat", in: list(
		vm.Texts(slices.Repeat([]string{strings.Repeat("a", 1<<20)}, 64), 64), vm.Texts([]string{"b"}),
	)})
	s := newSession(t, p, vm.Options{})
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	before := heap().HeapAlloc
	if _, err := s.Run(t.Context(), values); err != nil {
		t.Fatal(err)
	}
	if after := heap().HeapAlloc; after > before+32<<20 {
		t.Errorf("64 equal strings of 1 MiB leave %d bytes on the heap", after-before)
	}
}

func list(v ...vm.Value) []vm.Value { return v }

// prepared returns the program of a node and the values of its inputs.
func prepared(t testing.TB, k *nodeCase) (*vm.Program, map[string]vm.Value) {
	t.Helper()
	p, values, err := k.plan(t, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, values
}
