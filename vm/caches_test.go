package vm_test

import (
	"encoding/binary"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm"
)

const (
	cacheHeads = 2
	cacheRoom  = 6 // tokens
	cacheWidth = 4
)

// decoder is attention over a token and those before it, whose keys and values are in caches
// of fixed room. If past is not negative, they are in as many places as there were tokens
// before, to which Concat adds one.
func decoder(t *testing.T, past int) *graph.Model {
	t.Helper()
	b := graph.NewBuilder("decoder", 24)
	heads := graph.TensorOf(graph.Float32, 1, cacheHeads, 1, cacheWidth)
	room := cacheRoom
	if past >= 0 {
		room = past
	}
	of := graph.TensorOf(graph.Float32, 1, cacheHeads, graph.Dim(room), cacheWidth)
	q, k, v := b.Input("q", heads), b.Input("k", heads), b.Input("v", heads)
	pastK, pastV := b.Input("past_k", of), b.Input("past_v", of)
	var keys, values graph.TensorID
	var grow func(name string, past, now graph.TensorID) graph.TensorID
	if past >= 0 {
		grow = func(name string, past, now graph.TensorID) graph.TensorID {
			return b.Add(&graph.Node{Op: "Concat", Inputs: []graph.TensorID{past, now}, Attrs: []*graph.Attr{{Name: "axis", Type: graph.AttrInt, Int: 2}}}, name)[0]
		}
	} else {
		at := b.Input("at", graph.TensorOf(graph.Int64, 1))
		grow = func(name string, past, now graph.TensorID) graph.TensorID {
			return b.Node("TensorScatter", name, past, now, at)
		}
	}
	keys, values = grow("present_k", pastK, k), grow("present_v", pastV, v)
	turned := b.Add(&graph.Node{Op: "Transpose", Inputs: []graph.TensorID{keys}, Attrs: []*graph.Attr{{Name: "perm", Type: graph.AttrInts, Ints: []int64{0, 1, 3, 2}}}}, "keys")[0]
	scores := b.Node("MatMul", "scores", q, turned)
	if past < 0 {
		scores = b.Node("Add", "masked", scores, b.Input("mask", graph.TensorOf(graph.Float32, 1, 1, 1, cacheRoom)))
	}
	b.Output(b.Node("MatMul", "y", b.Node("Softmax", "weights", scores), values), keys, values)
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// token returns the inputs for token i of a text.
func token(i int) map[string]vm.Value {
	r := rand.New(rand.NewPCG(uint64(i), 7))
	in := map[string]vm.Value{}
	for _, name := range []string{"q", "k", "v"} {
		list := make([]float32, cacheHeads*cacheWidth)
		for j := range list {
			list[j] = r.Float32() - 0.5
		}
		in[name] = vm.Float32s(list, 1, cacheHeads, 1, cacheWidth)
	}
	mask := make([]float32, cacheRoom)
	for j := i + 1; j < cacheRoom; j++ {
		mask[j] = float32(math.Inf(-1))
	}
	in["mask"], in["at"] = vm.Float32s(mask, 1, 1, 1, cacheRoom), vm.Int64s([]int64{int64(i)}, 1)
	return in
}

// plannedModel plans a model that was built in memory.
func plannedModel(t *testing.T, m *graph.Model, opt passes.Options) (*vm.Program, *plan.Plan) {
	t.Helper()
	r, err := passes.Optimize(t.Context(), m, opt)
	if err != nil {
		t.Fatal(err)
	}
	p, err := vm.New(r.Model, r.Plan)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, r.Plan
}

// grown runs the decoder whose caches grow, token by token.
func grown(t *testing.T, tokens int) (outputs []map[string]vm.Value) {
	t.Helper()
	past := map[string]vm.Value{"past_k": vm.Float32s(nil, 1, cacheHeads, 0, cacheWidth), "past_v": vm.Float32s(nil, 1, cacheHeads, 0, cacheWidth)}
	for i := range tokens {
		p, _ := plannedModel(t, decoder(t, i), passes.Options{})
		in := token(i)
		delete(in, "mask")
		delete(in, "at")
		maps.Copy(in, past)
		s := newSession(t, p, vm.Options{})
		out, err := s.Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		past = map[string]vm.Value{"past_k": out["present_k"].Clone(), "past_v": out["present_v"].Clone()}
		outputs = append(outputs, map[string]vm.Value{"y": out["y"].Clone()})
	}
	return outputs
}

// decode runs the decoder with caches from token from on.
func decode(t *testing.T, s *vm.Session, from, to int) (outputs []map[string]vm.Value) {
	t.Helper()
	for i := from; i < to; i++ {
		out, err := s.Run(t.Context(), token(i))
		if err != nil {
			t.Fatal(err)
		}
		outputs = append(outputs, map[string]vm.Value{"y": out["y"].Clone()})
	}
	return outputs
}

// A decoder whose caches stay in their buffers gives what one gives whose caches grow,
// token by token, and keeps none of them in the arena.
func TestCaches(t *testing.T) {
	want := grown(t, cacheRoom)
	d, _ := onDevice(t)
	for name, opt := range map[string]passes.Options{
		"named": {States: []string{"past_k=present_k", "past_v=present_v"}}, "found": {StatesAuto: true},
	} {
		p, described := plannedModel(t, decoder(t, -1), opt)
		caches := 0
		for _, b := range described.Buffers {
			if b.Kind == plan.KindCache && b.Pool == plan.Resident && len(b.Tensors) == 2 {
				caches++
			}
		}
		if caches != 2 || len(p.Caches()) != 2 || described.Mode != "inference" {
			t.Fatalf("%s: %d caches in mode %s, expected 2: %+v", name, caches, described.Mode, described.Buffers)
		}
		for run, opt := range map[string]vm.Options{"on the CPU": {}, "apart": {Separate: true}, "poisoned": {Poison: true}, "on a device": {Device: d}} {
			s := newSession(t, p, opt)
			got := decode(t, s, 0, 3)
			kept, err := s.Snapshot()
			if err != nil || kept.Bytes() != 2*4*cacheHeads*cacheRoom*cacheWidth {
				t.Fatalf("%s %s: a snapshot of %d bytes: %v", name, run, kept.Bytes(), err)
			}
			got = append(got, decode(t, s, 3, cacheRoom)...)
			for i := range want {
				nearly(t, got[i], want[i], 1e-6)
			}
			if err := s.Restore(kept); err != nil {
				t.Fatal(err)
			}
			for i, again := range decode(t, s, 3, cacheRoom) {
				sameBits(t, run+", after Restore", again, got[3+i])
			}
			if err := s.Reset(); err != nil {
				t.Fatal(err)
			}
			for i, again := range decode(t, s, 0, cacheRoom) {
				sameBits(t, run+", after Reset", again, got[i])
			}
		}
		check, err := p.CheckRun(t.Context(), []map[string]vm.Value{token(0), token(1), token(2)}, vm.Options{Poison: true})
		if err != nil || !check.Identical() {
			t.Errorf("%s: planned and apart: %+v, %v", name, check, err)
		}
	}
}

// grouped is GroupQueryAttention over a token and those before it, with as many places in the
// caches as past says, for total tokens.
func grouped(t *testing.T, past, total int) *graph.Model {
	t.Helper()
	b := graph.NewBuilder("grouped", 21)
	cache := graph.TensorOf(graph.Float32, 1, cacheHeads, graph.Dim(past), cacheWidth)
	row := graph.TensorOf(graph.Float32, 1, 1, cacheHeads*cacheWidth)
	b.Import("com.microsoft", 1)
	count := b.Add(&graph.Node{Op: "Cast", Inputs: []graph.TensorID{b.Ints("tokens", nil, []int64{int64(total)})}, Attrs: []*graph.Attr{{Name: "to", Type: graph.AttrInt, Int: int64(graph.Int32)}}}, "total")[0]
	in := []graph.TensorID{b.Input("q", row), b.Input("k", row), b.Input("v", row), b.Input("past_k", cache), b.Input("past_v", cache), b.Input("last", graph.TensorOf(graph.Int32, 1)), count}
	number := func(name string) *graph.Attr { return &graph.Attr{Name: name, Type: graph.AttrInt, Int: cacheHeads} }
	b.Output(b.Add(&graph.Node{Domain: "com.microsoft", Op: "GroupQueryAttention", Inputs: in, Attrs: []*graph.Attr{number("num_heads"), number("kv_num_heads")}}, "y", "present_k", "present_v")...)
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// GroupQueryAttention writes caches with room for more tokens in place, gives what it gives
// with caches that grow, and leaves places behind the tokens as they were.
func TestGroupedCaches(t *testing.T) {
	next := func(i int) map[string]vm.Value {
		in := token(i)
		for _, name := range []string{"q", "k", "v"} {
			v := in[name]
			v.Shape = []int{1, 1, cacheHeads * cacheWidth}
			in[name] = v
		}
		delete(in, "mask")
		delete(in, "at")
		in["last"] = vm.Value{Type: graph.Int32, Shape: []int{1}, Data: binary.LittleEndian.AppendUint32(nil, uint32(i))}
		return in
	}
	past := map[string]vm.Value{"past_k": vm.Float32s(nil, 1, cacheHeads, 0, cacheWidth), "past_v": vm.Float32s(nil, 1, cacheHeads, 0, cacheWidth)}
	fixed, described := plannedModel(t, grouped(t, cacheRoom, cacheRoom), passes.Options{StatesAuto: true})
	if len(fixed.Caches()) != 2 {
		t.Fatalf("%d caches, expected 2: %+v", len(fixed.Caches()), described.Buffers)
	}
	marked := make([]float32, cacheHeads*cacheRoom*cacheWidth)
	for i := range marked {
		marked[i] = float32(math.NaN()) // must reach no result
	}
	d, _ := onDevice(t)
	sessions := map[string]*vm.Session{}
	for what, opt := range map[string]vm.Options{"on the CPU": {Poison: true}, "on a device": {Device: d}, "poisoned on a device": {Device: d, Poison: true}} {
		s := newSession(t, fixed, opt)
		if u := s.DeviceUse(); u != nil && u.FallbackNodes > 0 {
			t.Errorf("%s: %v on the CPU", what, u.FallbackOps)
		}
		for _, c := range fixed.Caches() {
			if err := s.Set(c.Name, vm.Float32s(marked, 1, cacheHeads, cacheRoom, cacheWidth)); err != nil {
				t.Fatal(err)
			}
		}
		sessions[what] = s
	}
	for i := range cacheRoom {
		growing, _ := plannedModel(t, grouped(t, i, i+1), passes.Options{})
		maps.Copy(past, next(i))
		want, err := newSession(t, growing, vm.Options{}).Run(t.Context(), past)
		if err != nil {
			t.Fatal(err)
		}
		for what, s := range sessions {
			got, err := s.Run(t.Context(), next(i))
			if err != nil {
				t.Fatal(err)
			}
			if s.DeviceUse() == nil {
				sameBits(t, "a token", map[string]vm.Value{"y": got["y"]}, map[string]vm.Value{"y": want["y"]})
			} else {
				nearly(t, map[string]vm.Value{"y": got["y"]}, map[string]vm.Value{"y": want["y"]}, 1e-6)
			}
			list, _ := got["present_k"].Reals()
			for _, x := range list[(i+1)*cacheWidth : cacheRoom*cacheWidth] {
				if !math.IsNaN(x) {
					t.Fatalf("%s: token %d: a place behind it has become %v", what, i, x)
				}
			}
		}
		past = map[string]vm.Value{"past_k": want["present_k"].Clone(), "past_v": want["present_v"].Clone()}
	}
	check, err := fixed.CheckRun(t.Context(), []map[string]vm.Value{next(0), next(1), next(2)}, vm.Options{Poison: true})
	if err != nil || !check.Identical() {
		t.Errorf("planned and apart: %+v, %v", check, err)
	}
}

// States that cannot stay in one buffer are refused, and the error says why.
func TestCachesRefused(t *testing.T) {
	for _, c := range []struct {
		states []string
		want   string
	}{
		{[]string{"past_k"}, "expected INPUT=OUTPUT"},
		{[]string{"past_k=nobody"}, "expected INPUT=OUTPUT"},
		{[]string{"past_k=present_k", "past_v=present_k"}, "each input and each output in one state"},
		{[]string{"past_k=present_v"}, "cannot be written over it"},
		{[]string{"past_k=y"}, "needs one fixed type"},
	} {
		if _, err := passes.Optimize(t.Context(), decoder(t, -1), passes.Options{States: c.states}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, expected one with %q", c.states, err, c.want)
		}
	}
	grows := decoder(t, 2)
	if _, p := plannedModel(t, grows, passes.Options{StatesAuto: true}); slices.ContainsFunc(p.Buffers, func(b plan.Buffer) bool { return b.Kind == plan.KindCache }) {
		t.Error("what Concat makes is called a cache")
	}
}

// A state stays if a Loop carries it, and if the next value is read through a view that is
// the last of its buffer.
func TestCachesFound(t *testing.T) {
	x := func(i int) map[string]vm.Value {
		return map[string]vm.Value{"x": vm.Float32s([]float32{1, float32(i), -1, 2}, 1, 4), "m": vm.Int64s([]int64{3}, 1), "at": vm.Int64s([]int64{int64(i)}, 1)}
	}
	for name, k := range map[string]struct {
		graph graphText
		gives []float64 // next, after two runs from zeros
	}{
		"carried by a loop": {graphText{`
			in state float32[1,4]
			in m int64[1]
			in x float32[1,4]
			seen = Neg(state)
			next = Loop(m, _, state)
			out next
			out seen
		`, map[string]string{"next.body": "in i int64[]\nin c bool[]\nin s float32[1,4]\nt = Add(s, x)\nd = Identity(c)\nout d\nout t"}}, []float64{6, 3, -6, 12}},
		"read through a view": {graphText{`
			in state float32[1,2,4]
			in x float32[1,4]
			in at int64[1]
			new = Unsqueeze(x, at.zero)
			init at.zero int64[1] = 0
			next = TensorScatter(state, new, at)
			flat = Flatten(next) axis=1
			y = Neg(flat)
			out next
			out y
		`, nil}, []float64{1, 0, -1, 2, 1, 1, -1, 2}},
	} {
		image, err := onnx.Encode(&graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 24}}, Graph: k.graph.graph(k.graph.main)})
		if err != nil {
			t.Fatal(err)
		}
		b, err := image.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		f, err := onnx.Parse("m.onnx", b) // which finds what bodies capture
		if err != nil {
			t.Fatal(err)
		}
		p, described := plannedModel(t, f, passes.Options{StatesAuto: true})
		if !slices.ContainsFunc(described.Buffers, func(b plan.Buffer) bool { return b.Kind == plan.KindCache }) {
			t.Errorf("%s: no cache: %+v", name, described.Buffers)
			continue
		}
		runs := []map[string]vm.Value{x(0), x(1)}
		for _, run := range runs {
			maps.DeleteFunc(run, func(name string, _ vm.Value) bool {
				return !slices.ContainsFunc(p.Inputs(), func(t graph.Tensor) bool { return t.Name == name })
			})
		}
		for _, opt := range []vm.Options{{}, {Separate: true}, {Poison: true}} {
			s := newSession(t, p, opt)
			var out map[string]vm.Value
			for _, run := range runs {
				var err error
				if out, err = s.Run(t.Context(), run); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			if got, _ := out["next"].Reals(); !slices.Equal(got, k.gives) {
				t.Errorf("%s, %+v: %v, expected %v", name, opt, got, k.gives)
			}
		}
		if check, err := p.CheckRun(t.Context(), runs, vm.Options{Poison: true}); err != nil || !check.Identical() {
			t.Errorf("%s: planned and apart: %+v, %v", name, check, err)
		}
	}
}
