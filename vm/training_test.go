package vm_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// net builds a model in memory. Tensors are identified by name.
type net struct {
	g     *graph.Graph
	named map[string]graph.TensorID
	draw  *rand.Rand
	opset int64
	other []graph.Opset // of domains beside that of ONNX
	dtype graph.DType   // of all tensors that are declared; 0: float32
}

func newNet() *net {
	return &net{g: &graph.Graph{Name: "net"}, named: map[string]graph.TensorID{}, draw: rand.New(rand.NewPCG(1, 1)), opset: 17}
}

func (n *net) tensor(name string) graph.TensorID {
	t, ok := n.named[name]
	if !ok {
		t = n.g.NewTensor(name)
		n.named[name] = t
	}
	return t
}

func (n *net) declare(name string, shape ...graph.Dim) *graph.Tensor {
	t := n.g.Tensors[n.tensor(name)]
	t.Declared = &graph.Declared{Type: graph.TensorOf(graph.Float32, shape...), Symbols: make([]string, len(shape))}
	return t
}

func (n *net) input(name string, shape ...graph.Dim) {
	n.declare(name, shape...).Input = true
	n.g.Inputs = append(n.g.Inputs, n.tensor(name))
}

func (n *net) output(name string, shape ...graph.Dim) {
	n.declare(name, shape...).Output = true
	n.g.Outputs = append(n.g.Outputs, n.tensor(name))
}

func (n *net) weight(name string, dims ...int64) {
	var raw []byte
	count := int64(1)
	for _, d := range dims {
		count *= d
	}
	for range count {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(n.draw.NormFloat64()/2)))
	}
	n.g.Tensors[n.tensor(name)].Data = &graph.Data{Name: name, Type: graph.Float32, Dims: dims, Raw: raw, Bytes: int64(len(raw))}
}

func (n *net) node(op, out string, in ...string) {
	k := &graph.Node{Name: out, Op: op, Domain: domainOf(op), Outputs: []graph.TensorID{n.tensor(out)}}
	for _, name := range in {
		k.Inputs = append(k.Inputs, n.tensor(name))
	}
	n.g.Nodes = append(n.g.Nodes, k)
}

func domainOf(op string) string {
	if op == graph.SwapOut || op == graph.SwapIn {
		return graph.SwapDomain
	}
	return ""
}

// write writes the model to a file.
func (n *net) write(t testing.TB, path string) {
	t.Helper()
	if n.dtype != 0 {
		n.convert()
	}
	n.g.Link()
	m := &graph.Model{IRVersion: 8, Opsets: append(n.other, graph.Opset{Version: n.opset}), Graph: n.g}
	if err := m.AddSwaps(); err != nil {
		t.Fatal(err)
	}
	im, err := onnx.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := onnx.Write(path, m, im, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// convert gives all declared tensors and weights of float32 the type of n.dtype.
func (n *net) convert() {
	for _, t := range n.g.Tensors {
		if t.Declared != nil && t.Declared.Type.Elem == graph.Float32 {
			t.Declared.Type.Elem = n.dtype
		}
		if d := t.Data; d != nil && d.Type == graph.Float32 {
			v := converted(vm.Value{Type: d.Type, Data: d.Raw}, n.dtype)
			d.Type, d.Raw, d.Bytes = v.Type, v.Data, int64(len(v.Data))
		}
	}
}

// converted rounds a value of float32 to another type.
func converted(v vm.Value, to graph.DType) vm.Value {
	list := kernel.Tensor{Type: to, Shape: []int{len(v.Data) / 4}}
	reals := make([]float64, list.Len())
	for i := range reals {
		reals[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(v.Data[4*i:])))
	}
	data := make([]byte, list.Bytes())
	list.At = unsafe.Pointer(unsafe.SliceData(data))
	if err := form.Store(&list, reals, nil); err != nil {
		panic(err)
	}
	v.Type, v.Data = to, data
	return v
}

// classifier writes a model of two dense layers with 3 classes.
func classifier(t testing.TB) string {
	n := newNet()
	n.input("x", 4, 8)
	n.weight("w1", 8, 16)
	n.weight("b1", 16)
	n.weight("w2", 16, 3)
	n.weight("b2", 3)
	n.node("Gemm", "h", "x", "w1", "b1")
	n.node("Relu", "r", "h")
	n.node("Gemm", "logits", "r", "w2", "b2")
	n.output("logits", 4, 3)
	path := filepath.Join(t.TempDir(), "classifier.onnx")
	n.write(t, path)
	return path
}

// open opens a model until the end of the test.
func open(t testing.TB, path string) *onnx.File {
	t.Helper()
	f, err := onnx.Open(path, onnx.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// trained returns the classifier's training step.
func trained(t testing.TB, path string) (*vm.Program, *passes.Result) {
	t.Helper()
	return program(t, path, passes.Options{Train: &autodiff.Options{Optimizer: "adam"}})
}

func newSession(t testing.TB, p *vm.Program, opt vm.Options) *vm.Session {
	t.Helper()
	s, err := p.NewSession(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// batch returns the data of one step.
func batch() map[string]vm.Value {
	return map[string]vm.Value{
		"x": ramp([]graph.Dim{4, 8}), "labels": vm.Int64s([]int64{0, 1, 2, 0}, 4), "learning_rate": vm.Float32s([]float32{0.01}),
	}
}

// advance runs steps and returns the loss of each.
func advance(t testing.TB, s *vm.Session, steps int) []float64 {
	t.Helper()
	var losses []float64
	for range steps {
		out, err := s.Run(t.Context(), batch())
		if err != nil {
			t.Fatal(err)
		}
		loss, _ := out["loss"].Reals()
		losses = append(losses, loss...)
	}
	return losses
}

// A session that continues from another's saved parameters takes the same steps, bit for
// bit, whether their elements lie in the file or beside it.
func TestSaveAndLoad(t *testing.T) {
	p, r := trained(t, classifier(t))
	through := newSession(t, p, vm.Options{})
	if err := through.Load(r.Step.Params); err != nil {
		t.Fatal(err)
	}
	want := advance(t, through, 8)
	if want[7] >= want[0] {
		t.Errorf("losses %v: expected them to fall", want)
	}
	for _, most := range []int64{1 << 20, 100} {
		defer vm.SetMostInline(vm.SetMostInline(most))
		path := filepath.Join(t.TempDir(), "saved.onnx")
		first := newSession(t, p, vm.Options{})
		if err := first.Save(path); err == nil || !strings.Contains(err.Error(), "has no value yet") {
			t.Errorf("got %v, want an error before there are values", err)
		}
		if err := first.Load(r.Step.Params); err != nil {
			t.Fatal(err)
		}
		got := advance(t, first, 5)
		if err := first.Save(path); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path + ".data"); (err == nil) != (most == 100) {
			t.Errorf("at most %d bytes within: a file beside: %v", most, err)
		}
		second := newSession(t, p, vm.Options{})
		if err := second.Load(open(t, path).Model); err != nil {
			t.Fatal(err)
		}
		if got = append(got, advance(t, second, 3)...); !slices.Equal(got, want) {
			t.Errorf("losses %v, without the pause %v", got, want)
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
			t.Errorf("left %q", left)
		}
	}
}

// SaveModel writes the inference model with the trained parameters: its file differs only
// in their elements, and it computes the logits of the trained model.
func TestSaveModel(t *testing.T) {
	path := classifier(t)
	p, r := trained(t, path)
	s := newSession(t, p, vm.Options{})
	if err := s.Load(r.Step.Params); err != nil {
		t.Fatal(err)
	}
	advance(t, s, 5)
	source := open(t, path)
	for _, most := range []int64{1 << 20, 100} {
		defer vm.SetMostInline(vm.SetMostInline(most))
		target := filepath.Join(t.TempDir(), "trained.onnx")
		if err := s.SaveModel(target, source.Model); err != nil {
			t.Fatal(err)
		}
		got := open(t, target)
		if !slices.EqualFunc(got.Graph.Nodes, source.Graph.Nodes, func(a, b *graph.Node) bool { return a.Name == b.Name && a.Op == b.Op }) {
			t.Error("other nodes")
		}
		values, err := vm.OpenInitializers(got.Model)
		if err != nil {
			t.Fatal(err)
		}
		defer values.Close()
		out, err := s.Run(t.Context(), batch())
		if err != nil {
			t.Fatal(err)
		}
		_ = out
		for name, v := range values.Values {
			if _, is := out[name+".new"]; !is || bytes.Equal(v.Data, rawOf(source, name)) {
				t.Errorf("%q is not the trained one", name)
			}
		}
		_, run := session(t, target, passes.Options{}, vm.Options{})
		logits, err := run.Run(t.Context(), map[string]vm.Value{"x": batch()["x"]})
		if err != nil {
			t.Fatal(err)
		}
		// The step above ran with the saved parameters.
		loss, _ := out["loss"].Reals()
		if want := crossEntropy(logits["logits"]); math.Abs(loss[0]-want) > 1e-6 {
			t.Errorf("the saved model's loss is %v, the session's %v", want, loss[0])
		}
		if err := s.SaveModel(target, source.Model); err != nil { // overwrites itself
			t.Fatal(err)
		}
	}
}

// TestWeightsInConstants: weights in Constant nodes are parameters like initializers.
// They are trained to the same values, and SaveModel writes them as initializers.
func TestWeightsInConstants(t *testing.T) {
	path := classifier(t)
	m := open(t, path).Model
	g := m.Graph.Clone()
	var constants []*graph.Node
	for id, w := range g.Tensors {
		if w.Data != nil {
			d := *w.Data
			w.Data = nil
			constants = append(constants, &graph.Node{Op: "Constant", Outputs: []graph.TensorID{graph.TensorID(id)}, Attrs: []*graph.Attr{{Name: "value", Type: graph.AttrTensor, Tensor: &d}}})
		}
	}
	g.Nodes = append(constants, g.Nodes...)
	g.Link()
	g.Span = graph.Span{}
	other := *m
	other.Graph = g
	im, err := onnx.Encode(&other)
	if err != nil {
		t.Fatal(err)
	}
	written := filepath.Join(t.TempDir(), "constants.onnx")
	if err := onnx.Write(written, &other, im, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	var saved [2]*onnx.File
	for i, path := range []string{path, written} {
		p, r := trained(t, path)
		s := newSession(t, p, vm.Options{})
		if err := s.Load(r.Step.Params); err != nil {
			t.Fatal(err)
		}
		advance(t, s, 3)
		target := filepath.Join(t.TempDir(), "trained.onnx")
		if err := s.SaveModel(target, open(t, path).Model); err != nil {
			t.Fatal(err)
		}
		saved[i] = open(t, target)
	}
	for _, w := range saved[0].Graph.Tensors {
		if w.Data != nil && !bytes.Equal(w.Data.Raw, rawOf(saved[1], w.Name)) {
			t.Errorf("%s: other bits than the initializer that was trained", w.Name)
		}
	}
	for _, n := range saved[1].Graph.Nodes {
		if n.Op == "Constant" {
			t.Errorf("%s is still in a Constant node", saved[1].Graph.Tensors[n.Outputs[0]].Name)
		}
	}
}

// TestSaveUntied: parameters and statistics that were separated from others before the
// training are initializers of their own in the saved model, which computes what the
// trained one computes.
func TestSaveUntied(t *testing.T) {
	n := newNet()
	n.input("x", 4, 8)
	n.weight("w", 8, 3)
	n.constant("one", graph.Float32, []int64{3}, float32(1), float32(1), float32(1))
	n.constant("zero", graph.Float32, []int64{3}, float32(0), float32(0), float32(0))
	n.node("MatMul", "h", "x", "w")
	n.node("BatchNormalization", "n1", "h", "one", "zero", "zero", "one")
	n.node("Identity", "bn2.weight", "one")
	n.node("Identity", "bn2.running_var", "one")
	n.node("BatchNormalization", "logits", "n1", "bn2.weight", "zero", "zero", "bn2.running_var")
	n.output("logits", 4, 3)
	path := filepath.Join(t.TempDir(), "fresh.onnx")
	n.write(t, path)
	train := func(path string, options autodiff.Options) (*vm.Session, *graph.Model) {
		p, r := program(t, path, passes.Options{Train: &options})
		s := newSession(t, p, vm.Options{})
		if err := s.Load(r.Step.Params); err != nil {
			t.Fatal(err)
		}
		return s, r.Step.Params
	}
	s, _ := train(path, autodiff.Options{UntieEqual: true})
	advance(t, s, 3)
	target := filepath.Join(t.TempDir(), "trained.onnx")
	if err := s.SaveModel(target, open(t, path).Model); err != nil {
		t.Fatal(err)
	}
	again, params := train(target, autodiff.Options{})
	if got, want := advance(t, again, 2), advance(t, s, 2); !slices.Equal(got, want) {
		t.Errorf("losses %v, those of the session %v", got, want)
	}
	if got := len(params.Graph.Tensors); got != 9 { // w, two scales, two biases, four statistics
		t.Errorf("%d parameters and states, expected 9", got)
	}
}

// TestLossScaleOfFloat16: gradients that are too small for float16 move the parameters if
// the loss is scaled, and not otherwise; a gradient that is too large moves nothing.
func TestLossScaleOfFloat16(t *testing.T) {
	n := newNet()
	n.input("x", 4, 8)
	n.reals("w", 8, 3)
	n.cast("x", graph.Float16)
	n.cast("w", graph.Float16)
	n.node("MatMul", "y", "x.t", "w.t")
	n.output("y", 4, 3)
	n.g.Tensors[n.tensor("y")].Declared.Type.Elem = graph.Float16
	path := filepath.Join(t.TempDir(), "half.onnx")
	n.write(t, path)
	moves := func(scale *autodiff.LossScale, size float32) (moved int, after float64) {
		p, r := program(t, path, passes.Options{Train: &autodiff.Options{LossScale: scale}})
		s := newSession(t, p, vm.Options{})
		if err := s.Load(r.Step.Params); err != nil {
			t.Fatal(err)
		}
		x := make([]float32, 32)
		for i := range x {
			x[i] = size
		}
		given := batch()
		given["x"], given["learning_rate"] = vm.Float32s(x, 4, 8), vm.Float32s([]float32{1e5})
		out, err := s.Run(t.Context(), given)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range r.Step.Params.Graph.Tensors {
			if p.Name == "w" && !bytes.Equal(p.Data.Raw, out["w.new"].Data) {
				moved++
			}
		}
		if v, is := out["loss_scale.new"]; is {
			list, _ := v.Reals()
			after = list[0]
		}
		return moved, after
	}
	const small, large = 6e-8, 6e4 // the least and nearly the largest float16
	if moved, _ := moves(nil, small); moved != 0 {
		t.Error("gradients of float16 did not vanish")
	}
	if moved, _ := moves(&autodiff.LossScale{Initial: 1 << 12}, small); moved != 1 {
		t.Error("scaled gradients vanished")
	}
	if moved, after := moves(autodiff.DynamicScale(), small); moved != 1 || after != 65536 {
		t.Errorf("moved %d, scale %v", moved, after)
	}
	if moved, after := moves(autodiff.DynamicScale(), large); moved != 0 || after != 32768 {
		t.Errorf("infinite gradients: moved %d, scale %v", moved, after)
	}
}

func rawOf(f *onnx.File, name string) []byte {
	for _, t := range f.Graph.Tensors {
		if t.Name == name {
			return t.Data.Raw
		}
	}
	return nil
}

// crossEntropy is the mean loss of the logits for the labels of batch.
func crossEntropy(v vm.Value) float64 {
	x, _ := v.Reals()
	total := 0.0
	for i := range 4 {
		sum := 0.0
		for _, l := range x[3*i : 3*i+3] {
			sum += math.Exp(l)
		}
		total += math.Log(sum) - x[3*i+i%3]
	}
	return total / 4
}

// SaveModel refuses a model other than the trained one.
func TestSaveModelRefuses(t *testing.T) {
	p, r := trained(t, classifier(t))
	s := newSession(t, p, vm.Options{})
	if err := s.Load(r.Step.Params); err != nil {
		t.Fatal(err)
	}
	other := func(weights func(n *net)) *graph.Model {
		n := newNet()
		n.input("x", 2)
		weights(n)
		n.node("Relu", "y", "x")
		n.output("y", 2)
		path := filepath.Join(t.TempDir(), "other.onnx")
		n.write(t, path)
		return open(t, path).Model
	}
	for _, c := range []struct {
		model *graph.Model
		want  string
	}{
		{other(func(*net) {}), `other.onnx: has no initializer "`},
		{other(func(n *net) {
			for _, name := range []string{"w1", "b1", "w2", "b2"} {
				n.weight(name, 7)
			}
		}), "is float32[7], the trained one float32["},
	} {
		target := filepath.Join(t.TempDir(), "trained.onnx")
		if err := s.SaveModel(target, c.model); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
		if left, _ := os.ReadDir(filepath.Dir(target)); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	}
}

// In CheckRun, each side continues from its own parameters.
func TestCheckRunsOfTraining(t *testing.T) {
	p, r := trained(t, classifier(t))
	i, err := vm.OpenInitializers(r.Step.Params)
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	first := batch()
	maps.Copy(first, i.Values)
	for _, poison := range []bool{false, true} {
		c, err := p.CheckRun(t.Context(), []map[string]vm.Value{first, batch(), batch()}, vm.Options{Poison: poison})
		if err != nil {
			t.Fatal(err)
		}
		if c.Runs != 3 || !c.Identical() || c.First != nil {
			t.Errorf("poison %v: %+v", poison, c)
		}
	}
	if _, err := p.CheckRun(t.Context(), []map[string]vm.Value{batch()}, vm.Options{}); err == nil || !strings.Contains(err.Error(), "without a first value") {
		t.Errorf("got %v, want an error about a parameter", err)
	}
}

// Sessions share the mapped weights and nothing else, even if they run at the same time.
func TestSessionsShareWeights(t *testing.T) {
	p, r := trained(t, classifier(t))
	found := make(chan string)
	const sessions = 4
	for k := range sessions {
		s := newSession(t, p, vm.Options{Workers: 1 + k})
		if err := s.Load(r.Step.Params); err != nil {
			t.Fatal(err)
		}
		go func() {
			var list []float64
			for range 5 {
				out, err := s.Run(t.Context(), batch())
				if err != nil {
					found <- err.Error()
					return
				}
				loss, _ := out["loss"].Reals()
				list = append(list, loss...)
			}
			found <- fmt.Sprint(list)
		}()
	}
	want := <-found
	for range sessions - 1 {
		if got := <-found; got != want {
			t.Errorf("%s in one session, %s in another", got, want)
		}
	}
}
