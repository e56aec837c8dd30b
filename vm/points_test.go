package vm_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// mappings counts the mappings of the process.
func mappings(t testing.TB) (n int) {
	t.Helper()
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		t.Skip("no /proc/self/maps on this system")
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		n++
	}
	return n
}

// TestPointsDoNotGrow: a session runs with one shape after another, more of them than it
// keeps, and neither the memory of the process nor its mappings grow.
func TestPointsDoNotGrow(t *testing.T) {
	p := rangedProgram(t, smallBERT(t), map[string]string{"batch": "1..3", "sequence": "1..16"})
	s := newSession(t, p, vm.Options{})
	draw := rand.New(rand.NewPCG(5, 5))
	run := func(shapes int) (bytes int64, maps int, taken int64) {
		for range shapes {
			dims := randomPoint(draw, p)
			if _, err := s.Run(t.Context(), inputsAt(t, p, dims, 1)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range int64(32) { // so that what is in use is comparable
			if _, err := s.Run(t.Context(), inputsAt(t, p, map[string]int64{"batch": 3 - i/16, "sequence": i%16 + 1}, 1)); err != nil {
				t.Fatal(err)
			}
		}
		debug.FreeOSMemory()
		return resident(t), mappings(t), p.Taken()
	}
	bytes, maps, taken := run(300)
	for range 3 {
		more, moreMaps, moreTaken := run(12 * randomShapes(t))
		if more > bytes+8<<20 || moreMaps > maps+8 || moreTaken != taken {
			t.Fatalf("after more shapes: %d bytes resident, %d mappings, %d bytes counted; after 300: %d, %d and %d", more, moreMaps, moreTaken, bytes, maps, taken)
		}
	}
}

// TestPointsKept: a session keeps the 32 points that it used last.
func TestPointsKept(t *testing.T) {
	p := rangedProgram(t, smallBERT(t), map[string]string{"batch": "1..3", "sequence": "1..16"})
	s := newSession(t, p, vm.Options{})
	run := func(batch, sequence int64) int {
		t.Helper()
		if _, err := s.Run(t.Context(), inputsAt(t, p, map[string]int64{"batch": batch, "sequence": sequence}, 1)); err != nil {
			t.Fatal(err)
		}
		return s.Bound()
	}
	for batch := range int64(2) {
		for n := range int64(16) {
			run(batch+1, n+1)
		}
	}
	for _, c := range []struct {
		batch, sequence int64
		bound           int
	}{
		{1, 1, 32},  // kept, and now the last that was used
		{3, 1, 33},  // a new one: the least recently used, (1, 2), goes
		{1, 1, 33},  // still there
		{1, 2, 34},  // it was gone; (1, 3) goes
		{1, 4, 34},  // still there
		{1, 3, 35},  // gone
		{2, 16, 35}, // still there
	} {
		if got := run(c.batch, c.sequence); got != c.bound {
			t.Errorf("batch=%d, sequence=%d: %d points were prepared so far, expected %d", c.batch, c.sequence, got, c.bound)
		}
	}
	m := s.Memory()
	if m.ArenaBytes >= p.Plan().Summary.ArenaBytes || m.ArenaBytes == 0 {
		t.Errorf("the arena takes %d bytes, expected those of the largest point so far and fewer than the %d of the plan", m.ArenaBytes, p.Plan().Summary.ArenaBytes)
	}
}

// TestPointErrors: inputs for which there is no plan are refused, and the error names the
// dimension. The session runs on.
func TestPointErrors(t *testing.T) {
	floats := func(shape ...int) vm.Value {
		n := 1
		for _, d := range shape {
			n *= d
		}
		return vm.Float32s(make([]float32, n), shape...)
	}
	unet := rangedProgram(t, smallUNet(t), map[string]string{"batch": "1..2", "height": "8..24", "width": "8,12"})
	wide := rangedProgramOf(t, smallUNet(t), passes.Options{Dims: map[string]int64{"height": 8}, Ranges: map[string]string{"batch": "1..2", "width": "8,12,13,20"}})
	decoder := rangedProgram(t, smallDecoder(t), map[string]string{"batch": "1..3", "past": "0..9"})
	token := map[string]vm.Value{
		"q": floats(2, 2, 2, 8), "k": floats(2, 2, 2, 8), "v": floats(2, 2, 2, 8),
		"past_k": floats(2, 2, 5, 8), "past_v": floats(2, 2, 5, 8), "mask": floats(2, 1, 2, 7),
	}
	with := func(name string, v vm.Value) map[string]vm.Value {
		in := maps.Clone(token)
		in[name] = v
		if v.Shape == nil {
			delete(in, name)
		}
		return in
	}
	for _, c := range []struct {
		doc  string
		p    *vm.Program
		in   map[string]vm.Value
		want string // "": it runs
	}{
		{"a point", decoder, token, ""},
		{"beyond the box", unet, map[string]vm.Value{"image": floats(3, 2, 8, 8)}, `dimension "batch": expected one of 1..2, found 3`},
		{"in a regular hole", unet, map[string]vm.Value{"image": floats(1, 2, 9, 8)}, `dimension "height": the model takes multiples of 4 from 8 to 24, found 9`},
		{"in another hole", wide, map[string]vm.Value{"image": floats(1, 2, 8, 13)}, `the model has no valid shapes at batch=1, width=13: `},
		{"not in a list", wide, map[string]vm.Value{"image": floats(1, 2, 8, 16)}, `dimension "width": expected one of 8,12,13,20, found 16`},
		{"inputs that disagree", decoder, with("past_v", floats(2, 2, 6, 8)), `tensor "past_v": dimension "past" (axis 2) is 6: expected 5, as along axis 2 of "past_k"`},
		{"a dimension that follows", decoder, with("mask", floats(2, 1, 2, 8)), `tensor "mask": dimension "past + 2" (axis 3) is 8: expected 7, which follows from batch=2, past=5`},
		{"a missing input that others make up for", decoder, with("q", vm.Value{}), `tensor "q": no value given`},
		{"no input", unet, nil, `tensor "image": no value given: expected one, whose axis 0 is dimension "batch"`},
		{"another rank", unet, map[string]vm.Value{"image": floats(2, 8, 8)}, `tensor "image": is float32[2,8,8], expected 4 axes`},
		{"a fixed axis", unet, map[string]vm.Value{"image": floats(1, 3, 8, 8)}, `tensor "image": is float32[1,3,8,8], expected float32[1,2,8,8]`},
	} {
		t.Run(c.doc, func(t *testing.T) {
			s := newSession(t, c.p, vm.Options{})
			_, err := s.Run(t.Context(), c.in)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			good := token
			if c.p != decoder {
				good = map[string]vm.Value{"image": floats(1, 2, 8, 8)}
			}
			if _, err := s.Run(t.Context(), good); err != nil {
				t.Errorf("the next run: %v", err)
			}
		})
	}
}

// TestPointContradictions: what a plan claims of a point is checked there before it runs.
func TestPointContradictions(t *testing.T) {
	build := func(change func(*passes.Result)) *vm.Program {
		r, err := passes.Optimize(t.Context(), smallDecoder(t), passes.Options{Ranges: map[string]string{"batch": "1..3", "past": "0..9"}})
		if err != nil {
			t.Fatal(err)
		}
		change(r)
		p, err := vm.New(r.Model, r.Plan)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	sizes := build(func(r *passes.Result) { r.Plan.Ranges.Sizes[0][0].Factor *= 2 })
	shared := build(func(*passes.Result) {})
	shared.AddShared("turned", "present_k")
	for _, c := range []struct {
		p    *vm.Program
		want string
	}{
		{sizes, `the plan contradicts the model at batch=2, past=3: `},
		{shared, `the plan contradicts the model at batch=2, past=3: tensor "turned": expected a result that can share the storage of "present_k"`},
	} {
		if _, err := c.p.At(map[string]int64{"batch": 2, "past": 3}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// TestPointAlone: At gives a program of one point for everything that a session of all
// points does not do.
func TestPointAlone(t *testing.T) {
	p := rangedProgram(t, smallBERT(t), map[string]string{"batch": "1..3", "sequence": "1..16"})
	dims := map[string]int64{"batch": 2, "sequence": 9}
	at, err := p.At(dims)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(at.Point(), dims) || p.Point() != nil {
		t.Errorf("the program is at %v, expected %v; the whole one at %v", at.Point(), dims, p.Point())
	}
	in := inputsAt(t, p, dims, 3)
	for _, opt := range []vm.Options{{}, {Poison: true}, {Guard: vm.GuardEnd}, {NoPack: true}} {
		c, err := at.CheckRun(t.Context(), []map[string]vm.Value{in, in}, opt)
		if err != nil || !c.Identical() {
			t.Errorf("%+v: %v, %v", opt, c, err)
		}
	}
	ref, err := at.CheckReference(t.Context(), []map[string]vm.Value{in}, vm.Options{})
	if err != nil || ref.Wrong > 0 {
		t.Errorf("%+v, %v", ref, err)
	}
	c, err := p.CheckRun(t.Context(), []map[string]vm.Value{in, in}, vm.Options{})
	if err != nil || !c.Identical() || c.Runs != 2 {
		t.Errorf("the whole program, twice at one point: %+v, %v", c, err)
	}
	other := inputsAt(t, p, map[string]int64{"batch": 2, "sequence": 8}, 3)
	if _, err := p.CheckRun(t.Context(), []map[string]vm.Value{in, other}, vm.Options{}); err == nil || !strings.Contains(err.Error(), "run 2 has other lengths than run 1: expected batch=2, sequence=9") {
		t.Errorf("two points in one check: %v", err)
	}
	if _, err := at.At(dims); err == nil || !strings.Contains(err.Error(), "the plan is for one length of each dimension") {
		t.Errorf("At of one point: %v", err)
	}
}

// TestPointsOtherwise: sessions of all points with guarded pages, with separate tensors
// and without packed weights give the same bits.
func TestPointsOtherwise(t *testing.T) {
	p := rangedProgram(t, smallBERT(t), map[string]string{"batch": "1..3", "sequence": "1..16"})
	plain := newSession(t, p, vm.Options{})
	for _, opt := range []vm.Options{{Guard: vm.GuardEnd}, {Guard: vm.GuardFront, Poison: true}, {Separate: true, Poison: true}, {NoPack: true}} {
		s := newSession(t, p, opt)
		for _, dims := range []map[string]int64{{"batch": 1, "sequence": 3}, {"batch": 3, "sequence": 16}, {"batch": 1, "sequence": 3}} {
			in := inputsAt(t, p, dims, 3)
			want, err := plain.Run(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Run(t.Context(), in)
			if err != nil {
				t.Fatalf("%+v: %v", opt, err)
			}
			sameOutputs(t, dims, got, want)
		}
	}
}

// TestPointsProfile: a profile of a session of all points has the times and the buffers of
// the run before.
func TestPointsProfile(t *testing.T) {
	p := rangedProgram(t, smallBERT(t), map[string]string{"batch": "1..3", "sequence": "1..16"})
	s := newSession(t, p, vm.Options{})
	f := s.Profile()
	var loads []int64
	for _, n := range []int64{16, 2} {
		if _, err := s.Run(t.Context(), inputsAt(t, p, map[string]int64{"batch": 1, "sequence": n}, 1)); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := f.Write(&b); err != nil {
			t.Fatal(err)
		}
		var trace struct {
			Events []struct {
				Name string `json:"name"`
				Args struct {
					Bytes int64 `json:"bytes"`
				} `json:"args"`
			} `json:"traceEvents"`
		}
		if err := json.Unmarshal(b.Bytes(), &trace); err != nil {
			t.Fatal(err)
		}
		load := int64(0)
		for _, e := range trace.Events {
			if e.Name == "load" {
				load = max(load, e.Args.Bytes)
			}
		}
		loads = append(loads, load)
		if costs := f.Costs(); len(costs) < 10 {
			t.Errorf("%d nodes have a time", len(costs))
		}
	}
	if loads[1] <= 0 || loads[0] <= loads[1] {
		t.Errorf("the largest loads of 16 and of 2 tokens are %d", loads)
	}
}

// TestPointsLimit: what counts against the limit is the arena of the largest point so far,
// not that of the plan.
func TestPointsLimit(t *testing.T) {
	b := graph.NewBuilder("square", 17)
	x := b.Input("x", graph.TensorOf(graph.Float32, graph.Unknown, 1024), "n")
	b.Output(b.Node("Exp", "y", b.Node("Sigmoid", "s", x)))
	p := rangedProgram(t, modelOf(t, b), map[string]string{"n": "1,16,1048576"}) // 4 GiB
	s := newSession(t, p, vm.Options{MemoryLimit: 1 << 20})
	for _, n := range []int64{1, 16} {
		if _, err := s.Run(t.Context(), inputsAt(t, p, map[string]int64{"n": n}, 1)); err != nil {
			t.Fatal(err)
		}
	}
	at, err := p.At(map[string]int64{"n": 1048576})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := at.NewSession(vm.Options{MemoryLimit: 1 << 20}); err == nil || !strings.Contains(err.Error(), "expected at most 1.00 MiB") {
		t.Errorf("the largest point: %v", err)
	}
}

// TestComputedAgain: weights that a node computes are freed once every product has packed
// them, and computed again for a point at which a product has not.
func TestComputedAgain(t *testing.T) {
	p := rangedProgram(t, transposedWeights(t), map[string]string{"batch": "1,2,17011"}) // a prime number of images: each is a product
	s := newSession(t, p, vm.Options{})
	run := func(n int64) int {
		dims := map[string]int64{"batch": n}
		in := inputsAt(t, p, dims, 1)
		out, err := s.Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		sameOutputs(t, dims, out, alone(t, transposedWeights(t), dims, in))
		return p.Kept()
	}
	if few, many, again := run(1), run(17011), run(2); few != 0 || many != 1 || again != 1 {
		t.Errorf("kept %d, %d and %d constants, expected 0, 1 and 1", few, many, again)
	}
}

// openSizes opens the height and the width of the images that a model takes.
func openSizes(m *graph.Model) *graph.Model {
	for _, id := range m.Graph.Inputs {
		if d := m.Graph.Tensors[id].Declared; len(d.Type.Shape) == 4 && d.Type.Shape[2] == d.Type.Shape[3] && d.Type.Shape[2].Exact() {
			d.Type.Shape[2], d.Type.Shape[3] = graph.Unknown, graph.Unknown
			d.Symbols[2], d.Symbols[3] = "height", "width"
		}
	}
	return m
}

// TestRandomShapesOfZoo runs models with weights in $ONNXMEM_ZOO with as many random shapes
// as $ONNXMEM_RANDOM_SHAPES says. Every 25th run is compared with a plan of its point
// alone. Once the session has met 64 shapes and the largest, the memory of the process no
// longer grows.
func TestRandomShapesOfZoo(t *testing.T) {
	dir := os.Getenv("ONNXMEM_ZOO")
	if dir == "" {
		t.Skip("set ONNXMEM_ZOO to a folder of models and their weights")
	}
	for _, c := range []struct {
		model  string
		ranges map[string]string
	}{
		{"bert_base-dyn", map[string]string{"batch": "1..2", "sequence": "1..24"}},
		{"gpt2_past-dyn", map[string]string{"batch": "1..2", "past": "1..40"}},
		{"unet-dyn", map[string]string{"batch": "1..2", "height": "16..64", "width": "16..64:16"}},
		{"resnet50-dyn", map[string]string{"batch": "1..3", "height": "33..64", "width": "64"}},
	} {
		t.Run(c.model, func(t *testing.T) {
			file := filepath.Join(dir, c.model+".onnx")
			if _, err := os.Stat(file); err != nil {
				t.Skip(err)
			}
			p := rangedProgramOf(t, openSizes(open(t, file).Model), passes.Options{Ranges: c.ranges})
			s := newSession(t, p, vm.Options{Poison: true})
			draw := rand.New(rand.NewPCG(2, 3))
			names, lengths := p.Plan().Box()
			corner := map[string]int64{}
			for i, name := range names {
				corner[name] = lengths[i][len(lengths[i])-1]
			}
			var bytes int64
			var maps, inUse int
			for i := range randomShapes(t) + 64 {
				dims := randomPoint(draw, p)
				if i == 0 {
					dims = corner
				}
				in := inputsAt(t, p, dims, uint64(i))
				out, err := s.Run(t.Context(), in)
				if err != nil {
					t.Fatalf("at %v: %v", dims, err)
				}
				if i%25 == 1 {
					f, err := onnx.Open(file, onnx.ReadOptions{}) // open would keep it until the end
					if err != nil {
						t.Fatal(err)
					}
					sameOutputs(t, dims, out, alone(t, openSizes(f.Model), dims, in))
					f.Close()
				}
				if debug.FreeOSMemory(); i == 64 {
					bytes, maps = resident(t), mappings(t)
				} else if inUse = mappings(t); i > 64 && (resident(t) > bytes+32<<20 || inUse > maps+64) {
					t.Fatalf("after %d shapes: %d bytes resident, %d mappings; after 64: %d and %d", i, resident(t), inUse, bytes, maps)
				}
			}
			t.Logf("%d shapes prepared %d times: resident %d MiB after 64 shapes, %d at the end; mappings %d and %d",
				randomShapes(t)+64, s.Bound(), bytes>>20, resident(t)>>20, maps, inUse)
		})
	}
}
