package vm_test

import (
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/vm"
)

// trainedRanges are small networks that are trained with ranges of dimensions.
var trainedRanges = []struct {
	name   string
	build  func(testing.TB) *graph.Model
	train  autodiff.Options
	ranges map[string]string
	points []map[string]int64
	near   float64 // how far results may be from those of a step made for the point alone, of the largest; 0: no bit
}{
	{
		"bert", smallBERT,
		autodiff.Options{Optimizer: "adamw", LossOutput: "last_hidden_state"},
		map[string]string{"batch": "2,4", "sequence": "2..4"},
		[]map[string]int64{{"batch": 2, "sequence": 4}, {"batch": 4, "sequence": 3}, {"batch": 2, "sequence": 2}, {"batch": 2, "sequence": 4}},
		0,
	},
	{
		"unet", func(t testing.TB) *graph.Model { return smallUNetOf(t, graph.Unknown, 8, 12) },
		autodiff.Options{Loss: "mse", Optimizer: "momentum"},
		map[string]string{"batch": "2..5"},
		[]map[string]int64{{"batch": 5}, {"batch": 2}, {"batch": 3}},
		0,
	},
	{
		"tiny_resnet8", func(t testing.TB) *graph.Model { return network(t, "tiny_resnet8", nil) },
		autodiff.Options{},
		map[string]string{"batch": "2..4"},
		[]map[string]int64{{"batch": 4}, {"batch": 2}, {"batch": 3}, {"batch": 4}},
		0,
	},
	{ // Its cells, and their gradients, are bodies of Scans.
		"lstm", recurrent,
		autodiff.Options{Loss: "mse", Optimizer: "momentum"},
		map[string]string{"batch": "2..5"},
		[]map[string]int64{{"batch": 5}, {"batch": 2}, {"batch": 3}, {"batch": 5}},
		0,
	},
	{ // The gradients of its depthwise convolutions are added in another order.
		"tiny_ds_cnn", func(t testing.TB) *graph.Model { return network(t, "tiny_ds_cnn", nil) },
		autodiff.Options{ClipNorm: 1},
		map[string]string{"batch": "2..3"},
		[]map[string]int64{{"batch": 3}, {"batch": 2}},
		1e-5,
	},
}

// recurrent is an LSTM of more steps than are unrolled.
func recurrent(t testing.TB) *graph.Model {
	const steps, width, hidden = 12, 5, 8
	b := graph.NewBuilder("lstm", 18)
	x := b.Input("x", graph.TensorOf(graph.Float32, steps, graph.Unknown, width), "", "batch", "")
	lstm := &graph.Node{
		Name: "lstm", Op: "LSTM",
		Inputs: []graph.TensorID{x, wave(b, "w", 1, 4*hidden, width), wave(b, "r", 1, 4*hidden, hidden), wave(b, "b", 1, 8*hidden)},
		Attrs:  []*graph.Attr{integer("hidden_size", hidden)},
	}
	y := b.Node("Squeeze", "flat", b.Add(lstm, "y")[0], b.Ints("axes", []int64{1}, []int64{1}))
	b.Output(b.Node("ReduceMean", "mean", y, b.Ints("axis", []int64{1}, []int64{0})))
	return modelOf(t, b)
}

// TestTrainRanges: one plan trains with one batch after another. Each step gives the bits of
// a step that was made and planned for that batch alone, and what it trains stays from one
// shape to the next: in shared memory, and apart.
func TestTrainRanges(t *testing.T) {
	for _, c := range trainedRanges {
		t.Run(c.name, func(t *testing.T) {
			p, r := programOf(t, c.build(t), passes.Options{Ranges: c.ranges, Train: &c.train, Effort: schedule.EffortFast})
			s := newSession(t, p, vm.Options{Poison: true})
			apart := newSession(t, p, vm.Options{Separate: true})
			for _, s := range []*vm.Session{s, apart} {
				if err := s.Load(r.Step.Params); err != nil {
					t.Fatal(err)
				}
			}
			var before map[string]vm.Value // what the step before has made
			for i, dims := range c.points {
				in := inputsAt(t, p, dims, uint64(i))
				in["learning_rate"] = vm.Float32s([]float32{0.05})
				if labels := in["labels"]; labels.Type == graph.Int64 {
					for k := range len(labels.Data) / 8 {
						clear(labels.Data[8*k : 8*k+8])
						labels.Data[8*k] = byte(k % 3)
					}
				}
				out, err := s.Run(t.Context(), in)
				if err != nil {
					t.Fatalf("at %v: %v", dims, err)
				}
				copies, err := apart.Run(t.Context(), in)
				if err != nil {
					t.Fatalf("apart, at %v: %v", dims, err)
				}
				sameOutputs(t, dims, copies, out)
				want := trainAlone(t, c.build(t), c.train, dims, before, in)
				if c.near == 0 {
					sameOutputs(t, dims, out, want)
				} else {
					nearOutputs(t, dims, out, want, c.near)
				}
				before = want
			}
			path := t.TempDir() + "/params.onnx"
			if err := s.Save(path); err != nil {
				t.Error(err)
			}
		})
	}
}

// nearOutputs fails if outputs differ by more than a part of the largest element.
func nearOutputs(t testing.TB, dims map[string]int64, got, want map[string]vm.Value, part float64) {
	t.Helper()
	for name, v := range want {
		a, _ := got[name].Reals()
		b, _ := v.Reals()
		if len(a) != len(b) || len(b) == 0 {
			t.Fatalf("at %v: output %q: expected %d elements, found %d", dims, name, len(b), len(a))
		}
		most, off := 0.0, 0.0
		for i, x := range b {
			most, off = max(most, math.Abs(x)), max(off, math.Abs(a[i]-x))
		}
		if off > part*most {
			t.Errorf("at %v: output %q: expected at most %g from a step of that point alone, of the largest element, found %g", dims, name, part, off/most)
		}
	}
}

// trainAlone runs one step that was made for a point alone.
func trainAlone(t testing.TB, m *graph.Model, opt autodiff.Options, dims map[string]int64, before, in map[string]vm.Value) map[string]vm.Value {
	t.Helper()
	p, r := programOf(t, m, passes.Options{Train: &opt, Dims: dims, Effort: schedule.EffortFast})
	s := newSession(t, p, vm.Options{})
	if err := s.Load(r.Step.Params); err != nil {
		t.Fatal(err)
	}
	for _, state := range p.States() {
		if v, has := before[state.Name+".new"]; has {
			if err := s.Set(state.Name, v); err != nil {
				t.Fatal(err)
			}
		}
	}
	out, err := s.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	all := maps.Clone(out)
	for name, v := range all {
		all[name] = v.Clone()
	}
	return all
}

// TestTrainRangeRefuses: where the steps differ in more than constants, or a length has none,
// the error says so, also if one length alone is left.
func TestTrainRangeRefuses(t *testing.T) {
	n := newNet() // the classes are the batch, and one class is none
	n.input("x", graph.Unknown, 6)
	n.g.Tensors[n.tensor("x")].Declared.Symbols[0] = "batch"
	n.weight("w", 6, 5)
	n.node("MatMul", "h", "x", "w")
	n.node("Transpose", "y", "h")
	n.output("y", 5, graph.Unknown)
	path := filepath.Join(t.TempDir(), "classes.onnx")
	n.write(t, path)
	resnet, classes := network(t, "tiny_resnet8", nil), open(t, path).Model
	none := []string{"training with ranges of dimensions", "no step can be made for batch=1", "over one class"}
	for _, c := range []struct {
		m      *graph.Model
		ranges map[string]string
		want   []string
	}{
		{resnet, map[string]string{"batch": "1..4"}, []string{"training with ranges of dimensions", "is another graph than that", "often those from 2 on"}},
		{classes, map[string]string{"batch": "1..4"}, none},
		{classes, map[string]string{"batch": "1,4"}, none},
	} {
		_, err := passes.Optimize(t.Context(), c.m, passes.Options{Ranges: c.ranges, Train: &autodiff.Options{FusedGradients: autodiff.FuseOff}})
		if err == nil || slices.ContainsFunc(c.want, func(w string) bool { return !strings.Contains(err.Error(), w) }) {
			t.Errorf("%v: got %v, want %q", c.ranges, err, c.want)
		}
	}
}
