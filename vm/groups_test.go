package vm_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/marks"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/cuda"
)

// markings are changes of the marks of a step, which must change no bit. They get the nodes that
// have marks.
var markings = []struct {
	what string
	keep bool // all groups are found nevertheless
	do   func(draw *rand.Rand, g *graph.Graph, marked []*graph.Node)
}{
	{"no marks", false, func(_ *rand.Rand, _ *graph.Graph, marked []*graph.Node) {
		for _, n := range marked {
			n.DropProp(marks.Key)
		}
	}},
	{"one number for all groups", true, func(_ *rand.Rand, g *graph.Graph, _ []*graph.Node) {
		for _, f := range marks.Find(g) {
			for i, n := range f.Nodes {
				g.Nodes[n].SetProp(marks.Key, f.Group.Mark(0, f.Group.Nodes[i].Role))
			}
		}
	}},
	{"marks drawn anew", false, func(draw *rand.Rand, _ *graph.Graph, marked []*graph.Node) {
		for _, i := range draw.Perm(len(marked)) {
			a, b := marked[i], marked[draw.IntN(len(marked))]
			x, _ := a.Prop(marks.Key)
			y, _ := b.Prop(marks.Key)
			a.SetProp(marks.Key, y)
			b.SetProp(marks.Key, x)
		}
	}},
	{"marks of two nodes exchanged", false, func(draw *rand.Rand, _ *graph.Graph, marked []*graph.Node) {
		a, b := draw.IntN(len(marked)), draw.IntN(len(marked))
		x, _ := marked[a].Prop(marks.Key)
		y, _ := marked[b].Prop(marks.Key)
		marked[a].SetProp(marks.Key, y)
		marked[b].SetProp(marks.Key, x)
	}},
	{"marks on all nodes", false, func(draw *rand.Rand, g *graph.Graph, marked []*graph.Node) {
		for _, n := range g.Nodes {
			mark, _ := marked[draw.IntN(len(marked))].Prop(marks.Key)
			n.SetProp(marks.Key, mark)
		}
	}},
	{"marks without sense", false, func(draw *rand.Rand, _ *graph.Graph, marked []*graph.Node) {
		for _, n := range marked {
			n.SetProp(marks.Key, []string{"", " ", "/", "batchnorm.gradient", "batchnorm.gradient/0 ", "/0 result", "x/1 result result"}[draw.IntN(7)])
		}
	}},
}

// Whatever the marks of a step say, its results are the same bits.
func TestMarksChangeNoBit(t *testing.T) { marksChangeNoBit(t, convolutional, 1, nil) }

// So it is on a device.
func TestDeviceMarksChangeNoBit(t *testing.T) {
	d, _ := onDevice(t)
	marksChangeNoBit(t, convolutional, 1, d)
	marksChangeNoBit(t, rowwise, 0, d)
}

func marksChangeNoBit(t *testing.T, network func(*testing.T, *rand.Rand) (string, int64), seed uint64, d *cuda.Device) {
	t.Helper()
	step, inputs := stepOf(t, network, seed)
	want, whole := runStep(t, step, inputs, d)
	if len(whole) == 0 {
		t.Fatal("no group is one kernel")
	}
	for k, c := range markings {
		m, marked := copyOf(step)
		c.do(rand.New(rand.NewPCG(uint64(k), 3)), m.Graph, marked)
		got, chained := runStep(t, m, inputs, d)
		for name, v := range want {
			if !bytes.Equal(v.Data, got[name].Data) {
				t.Errorf("%s: %s differs", c.what, name)
			}
		}
		if same := slices.Equal(chained, whole); same != c.keep {
			t.Errorf("%s: %d nodes are computed with others, with the marks %d", c.what, len(chained), len(whole))
		}
	}
}

// TestSavedStepsAreAsFast: a training step that was written to a file and read again has the tasks
// of the step in memory, each with the same kernel.
func TestSavedStepsAreAsFast(t *testing.T) {
	gradients := 0
	for _, network := range []func(*testing.T, *rand.Rand) (string, int64){convolutional, rowwise} {
		for seed := range uint64(3) {
			path, _ := network(t, rand.New(rand.NewPCG(seed, 5)))
			p, r := program(t, path, passes.Options{Train: &autodiff.Options{Optimizer: "adamw"}})
			direct := newSession(t, p, vm.Options{})
			gradients += len(direct.NormGradients())
			im, err := onnx.Encode(r.Model)
			if err != nil {
				t.Fatal(err)
			}
			path = filepath.Join(t.TempDir(), "step.onnx")
			if err := onnx.Write(path, r.Model, im, onnx.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			again, err := vm.New(open(t, path).Model, r.Plan)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { again.Close() })
			if got, want := newSession(t, again, vm.Options{}).Lowered(), direct.Lowered(); got != want {
				t.Errorf("seed %d: the step in the file has tasks\n%s\nthe step in memory\n%s", seed, got, want)
			}
		}
	}
	if gradients == 0 {
		t.Error("no gradient is one kernel")
	}
}

// stepOf returns the training step of a network, as it is in a file, and inputs of it.
func stepOf(t *testing.T, network func(*testing.T, *rand.Rand) (string, int64), seed uint64) (*graph.Model, map[string]vm.Value) {
	t.Helper()
	path, batch := network(t, rand.New(rand.NewPCG(seed, 5)))
	step, err := autodiff.Train(open(t, path).Model, autodiff.Options{})
	if err != nil {
		t.Fatal(err)
	}
	params, err := vm.OpenInitializers(step.Params)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { params.Close() })
	inputs := maps.Clone(params.Values)
	labels := make([]int64, batch)
	for i := range labels {
		labels[i] = int64(i) % 3
	}
	maps.Copy(inputs, map[string]vm.Value{"labels": vm.Int64s(labels, int(batch)), "learning_rate": vm.Float32s([]float32{0.01})})
	for _, id := range step.Model.Graph.Inputs {
		if x := step.Model.Graph.Tensors[id]; x.Name == "x" {
			inputs["x"] = ramp(x.Type.Shape)
		}
	}
	im, err := onnx.Encode(step.Model)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "step.onnx")
	if err := onnx.Write(path, step.Model, im, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	m := open(t, path).Model
	if _, err := ops.Infer(m, ops.Options{}); err != nil {
		t.Fatal(err)
	}
	return m, inputs
}

// copyOf copies a model and lists the nodes that have marks.
func copyOf(step *graph.Model) (m *graph.Model, marked []*graph.Node) {
	c := *step
	c.Graph, c.Source = step.Graph.Clone(), nil
	for _, n := range c.Graph.Nodes {
		if _, is := n.Prop(marks.Key); is {
			marked = append(marked, n)
		}
	}
	return &c, marked
}

// runStep plans a step, runs it once, and lists the nodes of groups that kernels compute.
func runStep(t *testing.T, m *graph.Model, inputs map[string]vm.Value, d *cuda.Device) (map[string]vm.Value, []string) {
	t.Helper()
	p, _ := programOf(t, m, passes.Options{Effort: schedule.EffortFast})
	s := newSession(t, p, vm.Options{Poison: true, Device: d})
	got, err := s.Run(t.Context(), inputs)
	if err != nil {
		t.Fatal(err)
	}
	return got, slices.Sorted(slices.Values(s.NormGradients()))
}

// tamperings are changes of one node of a group that keeps its mark.
var tamperings = []struct {
	what string
	do   func(draw *rand.Rand, g *graph.Graph, n *graph.Node)
}{
	{"operands exchanged", func(_ *rand.Rand, _ *graph.Graph, n *graph.Node) { slices.Reverse(n.Inputs) }},
	{"another operator", func(_ *rand.Rand, _ *graph.Graph, n *graph.Node) {
		n.Op = map[string]string{"Sub": "Add", "Add": "Sub", "Mul": "Sub", "Sqrt": "Abs", "Reciprocal": "Neg", "ReduceMean": "ReduceSum", "ReduceSum": "ReduceMean", "ReduceSumSquare": "ReduceSum"}[n.Op]
	}},
	{"another operand", func(draw *rand.Rand, g *graph.Graph, n *graph.Node) {
		k := draw.IntN(len(n.Inputs))
		old := g.Tensors[n.Inputs[k]]
		var like []graph.TensorID // made before
		for id, x := range g.Tensors {
			if x.Type.String() == old.Type.String() && (x.Maker < 0 || x.Maker < g.Tensors[n.Outputs[0]].Maker) {
				like = append(like, graph.TensorID(id))
			}
		}
		n.Inputs[k] = like[draw.IntN(len(like))]
	}},
	{"scales of another shape", func(_ *rand.Rand, g *graph.Graph, _ *graph.Node) {
		for _, n := range g.Nodes { // the images are as wide as they have channels
			if _, is := n.Prop(marks.Key); !is {
				continue
			}
			if m := g.Tensors[n.Inputs[0]].Maker; m >= 0 && g.Nodes[m].Op == "Reshape" {
				n.Inputs[0] = g.Nodes[m].Inputs[0]
			}
		}
	}},
	{"fewer axes", func(_ *rand.Rand, _ *graph.Graph, n *graph.Node) {
		if a := n.Attr("keepdims"); a != nil {
			a.Int = 0
		}
	}},
	{"axes that are not reduced", func(_ *rand.Rand, _ *graph.Graph, n *graph.Node) {
		if n.Attr("keepdims") != nil {
			n.Attrs = append(n.Attrs, integer("noop_with_empty_axes", 1))
		}
	}},
	{"a constant of more axes, or another", func(draw *rand.Rand, g *graph.Graph, n *graph.Node) {
		var list []graph.TensorID
		for id, x := range g.Tensors {
			if x.Data != nil {
				list = append(list, graph.TensorID(id))
			}
		}
		for k, in := range n.Inputs {
			if g.Tensors[in].Data != nil {
				n.Inputs[k] = list[draw.IntN(len(list))]
			}
		}
	}},
}

// Marks are believed only as far as nodes are what a kernel computes: a step whose nodes were
// changed has the bits of its nodes, whatever their marks say, or is refused.
func TestTamperedGroups(t *testing.T) { tamperedGroups(t, convolutional, 1, nil, 10) }

// So it is on a device.
func TestDeviceTamperedGroups(t *testing.T) {
	d, _ := onDevice(t)
	tamperedGroups(t, convolutional, 1, d, 1)
	tamperedGroups(t, rowwise, 0, d, 1)
}

func tamperedGroups(t *testing.T, network func(*testing.T, *rand.Rand) (string, int64), seed uint64, d *cuda.Device, times int) {
	t.Helper()
	step, inputs := stepOf(t, network, seed)
	ran := 0
	for k, c := range tamperings {
		for try := range times {
			draw := rand.New(rand.NewPCG(uint64(try), uint64(k)))
			m, marked := copyOf(step)
			n := marked[draw.IntN(len(marked))]
			at := fmt.Sprintf("%s: %s, %d", n.Name, c.what, try)
			c.do(draw, m.Graph, n)
			m.Graph.Link()
			r, err := passes.Optimize(t.Context(), m, passes.Options{Effort: schedule.EffortFast})
			if err != nil {
				continue // it has no valid shapes
			}
			p, err := vm.New(r.Model, r.Plan)
			if err != nil {
				t.Fatalf("%s: %v", at, err)
			}
			found, err := p.CheckRun(t.Context(), []map[string]vm.Value{inputs}, vm.Options{Poison: true, Device: d})
			p.Close()
			var refused *graph.Error
			switch {
			case errors.As(err, &refused): // by a kernel
			case err != nil || !found.Identical():
				t.Errorf("%s: %+v, %v", at, found, err)
			default:
				ran++
			}
		}
	}
	if ran < len(tamperings)*times/2 {
		t.Errorf("only %d changed steps run", ran)
	}
}
