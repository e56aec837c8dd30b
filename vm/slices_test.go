package vm_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/vm"
)

// Whole networks whose regions run in slices need less memory than any order of their
// nodes, and give the same bits.
func TestSlicedNetworks(t *testing.T) {
	layers := "1"
	if sweep.On() {
		layers = "2"
	}
	networks := append(slices.Clone(smallNetworks[:3]), smallNetwork{
		"vit_b_16", map[string]string{"size": "64", "patch": "8", "classes": "10", "layers": "2", "hidden": "32", "heads": "4", "ff": "128"}, map[string]int64{"batch": 2},
	}, smallNetworks[4], smallNetwork{
		"transformer", map[string]string{"vocab": "50", "positions": "64", "layers": layers, "hidden": "32", "heads": "4", "ff": "128"}, map[string]int64{"batch": 2, "source": 48, "target": 40},
	})
	for _, n := range networks {
		t.Run(n.name, func(t *testing.T) {
			file := n.file(t)
			whole, _ := program(t, file, passes.Options{})
			inputs := inputsOf(whole)
			want, _ := runSteps(t, whole, vm.Options{}, nil, 1)
			effort := schedule.EffortFast
			if sweep.On() {
				effort = schedule.EffortDefault
			}
			sliced, r := program(t, file, passes.Options{Slices: passes.SlicesExact, ExtraPercent: 1000, Effort: effort})
			s := r.Plan.Summary
			if r.Plan.Slices == nil || s.PeakBytes >= s.UnslicedPeakBytes {
				t.Fatalf("no slices, or a peak of %d that is not below that of the whole network", s.PeakBytes)
			}
			for _, region := range r.Plan.Slices.Regions {
				if !region.Exact {
					t.Errorf("a region of %d nodes sums over slices", len(region.Nodes))
				}
			}
			got, _ := runSteps(t, sliced, vm.Options{}, nil, 1)
			sameBits(t, "in slices", got, want)
			check, err := sliced.CheckRun(t.Context(), []map[string]vm.Value{inputs}, vm.Options{Poison: true})
			if err != nil || !check.Identical() {
				t.Errorf("planned and apart: %+v, %v", check, err)
			}
			t.Logf("peak %d of %d B in %d regions", s.PeakBytes, s.UnslicedPeakBytes, len(r.Plan.Slices.Regions))
		})
	}
}

// Networks whose slices call local functions give the bits of the whole network, in files
// with fewer nodes and nearly the memory of those whose slices have nodes of their own.
func TestCompactSlices(t *testing.T) {
	for _, n := range []smallNetwork{
		smallNetworks[0],
		{"vit_b_16", map[string]string{"size": "64", "patch": "8", "classes": "10", "layers": "2", "hidden": "32", "heads": "4", "ff": "128"}, map[string]int64{"batch": 2}},
		smallNetworks[2],
	} {
		t.Run(n.name, func(t *testing.T) {
			large(t, n.name, "googlenet")
			file := n.file(t)
			whole, _ := program(t, file, passes.Options{})
			inputs := inputsOf(whole)
			want, _ := runSteps(t, whole, vm.Options{}, nil, 1)
			_, plain := program(t, file, passes.Options{Slices: passes.SlicesExact, ExtraPercent: 1000})
			compact, r := program(t, file, passes.Options{Slices: passes.SlicesExact, ExtraPercent: 1000, Compact: true})
			if few, many := r.Plan.Summary.Nodes, plain.Plan.Summary.Nodes; few >= many {
				t.Errorf("%d nodes, with nodes of slices' own %d: expected fewer", few, many)
			}
			if peak, own := r.Plan.Summary.PeakBytes, plain.Plan.Summary.PeakBytes; peak > own+own/16 {
				t.Errorf("peak %d B, with nodes of slices' own %d B: expected no more than a sixteenth more", peak, own)
			}
			got, _ := runSteps(t, compact, vm.Options{}, nil, 1)
			sameBits(t, "in calls", got, want)
			check, err := compact.CheckRun(t.Context(), []map[string]vm.Value{inputs}, vm.Options{Poison: true})
			if err != nil || !check.Identical() {
				t.Errorf("planned and apart: %+v, %v", check, err)
			}
			t.Logf("%d of %d nodes, peak %d of %d B", r.Plan.Summary.Nodes, plain.Plan.Summary.Nodes, r.Plan.Summary.PeakBytes, plain.Plan.Summary.PeakBytes)
		})
	}
}

// A step of training whose micro-batches call local functions gives the bits of one whose
// micro-batches have nodes of their own: sums are the same nodes.
func TestCompactTraining(t *testing.T) {
	sweep.Only(t)
	n := smallNetwork{"bert", map[string]string{"vocab": "50", "positions": "16", "layers": "1", "hidden": "16", "heads": "2", "ff": "32"}, map[string]int64{"batch": 4, "sequence": 16}}
	file := n.file(t)
	opt := passes.Options{Train: &autodiff.Options{}, Slices: passes.SlicesAny, Limit: &passes.Limit{Percent: 45}, Effort: schedule.EffortFast, Device: passes.Device{FLOPS: 1e8, Bandwidth: 1e8}}
	plain, r := program(t, file, opt)
	want, _ := runSteps(t, plain, vm.Options{}, r.Step.Params, 3)
	own := r.Plan.Summary
	opt.Compact = true
	compact, r := program(t, file, opt)
	if s := r.Plan.Summary; s.Nodes >= own.Nodes*3/4 || s.PeakBytes > own.UnslicedPeakBytes*45/100 {
		t.Errorf("%d nodes and a peak of %d B; without calls %d and %d", s.Nodes, s.PeakBytes, own.Nodes, own.PeakBytes)
	}
	got, _ := runSteps(t, compact, vm.Options{}, r.Step.Params, 3)
	nearly(t, got, want, 1e-5)
	t.Logf("%d of %d nodes, peak %d of %d B", r.Plan.Summary.Nodes, own.Nodes, r.Plan.Summary.PeakBytes, own.PeakBytes)
}

// Steps of training in slices of the batch, whose gradients are sums over slices, give
// the same losses and parameters but for the last bits, and a hundred steps the losses of
// the whole step.
func TestSlicedTraining(t *testing.T) {
	bert := smallNetwork{"bert", smallLayers, map[string]int64{"batch": 8, "sequence": 16}}
	for _, c := range []struct {
		name, file string
		least      int // nodes in slices
		rate       float32
	}{
		{"bert", bert.file(t), 100, 0.01},
		{"pools", pools(t), 40, 0.0005},
	} {
		t.Run(c.name, func(t *testing.T) {
			whole, step := program(t, c.file, passes.Options{Train: &autodiff.Options{}})
			want, _ := runSteps(t, whole, vm.Options{}, step.Step.Params, 3)
			sliced, r := program(t, c.file, passes.Options{Train: &autodiff.Options{}, Slices: passes.SlicesAny, Limit: &passes.Limit{Percent: 45}, Device: passes.Device{FLOPS: 1e8, Bandwidth: 1e8}, Effort: schedule.EffortFast})
			s := r.Plan.Summary
			if r.Plan.Slices == nil || s.PeakBytes >= s.UnslicedPeakBytes {
				t.Fatalf("no slices, or a peak of %d that is not below that of the whole step", s.PeakBytes)
			}
			if n := len(r.Plan.Slices.Regions[0].Nodes); n < c.least {
				t.Errorf("a region of %d nodes: expected micro-batches of most of the step", n)
			}
			got, _ := runSteps(t, sliced, vm.Options{}, r.Step.Params, 3)
			nearly(t, got, want, 1e-5)
			t.Logf("peak %d of %d B", s.PeakBytes, s.UnslicedPeakBytes)
			if sweep.On() {
				sameLosses(t, whole, sliced, step.Step.Params, c.rate)
			}
		})
	}
}

// drawn returns a function that adds weights drawn from ±0.5.
func drawn(b *graph.Builder) func(name string, dims ...int64) graph.TensorID {
	random := rand.New(rand.NewPCG(1, 2))
	return func(name string, dims ...int64) graph.TensorID {
		n := int64(1)
		for _, d := range dims {
			n *= d
		}
		elements := make([]float32, n)
		for i := range elements {
			elements[i] = random.Float32() - 0.5
		}
		return b.Floats(name, dims, elements)
	}
}

// pools writes a network of convolutions, one of which is of single channels, and
// poolings.
func pools(t *testing.T) string {
	t.Helper()
	b := graph.NewBuilder("pools", 17)
	list := func(name string, v ...int64) *graph.Attr {
		return &graph.Attr{Name: name, Type: graph.AttrInts, Ints: v}
	}
	weight := drawn(b)
	x := b.Input("x", graph.TensorOf(graph.Float32, 16, 3, 16, 16))
	conv := func(name string, group int64, dims ...int64) {
		x = b.Add(&graph.Node{
			Op: "Conv", Inputs: []graph.TensorID{x, weight(name+".weight", dims...), weight(name+".bias", dims[0])},
			Attrs: []*graph.Attr{list("pads", 1, 1, 1, 1), {Name: "group", Type: graph.AttrInt, Int: group}},
		}, name)[0]
		x = b.Node("Relu", name+".relu", x)
	}
	pool := func(name string) {
		x = b.Add(&graph.Node{Op: "MaxPool", Inputs: []graph.TensorID{x}, Attrs: []*graph.Attr{list("kernel_shape", 3, 3), list("pads", 1, 1, 1, 1), list("strides", 2, 2)}}, name)[0]
	}
	conv("first", 1, 8, 3, 3, 3)
	pool("pool1")
	conv("second", 1, 16, 8, 3, 3)
	conv("depthwise", 16, 16, 1, 3, 3)
	pool("pool2")
	conv("third", 1, 8, 16, 3, 3)
	flat := b.Node("Flatten", "flat", x)
	b.Output(b.Node("Gemm", "logits", flat, weight("fc.weight", 8*4*4, 10), weight("fc.bias", 10)))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return write(t, m, "pools")
}

// Steps of training in slices of which nodes run again give the losses and parameters of
// the whole step but for the last bits.
func TestSlicedTrainingWithRecomputation(t *testing.T) {
	sweep.Only(t)
	n := smallNetwork{"bert", map[string]string{"vocab": "50", "positions": "16", "layers": "1", "hidden": "16", "heads": "2", "ff": "32"}, map[string]int64{"batch": 4, "sequence": 16}}
	file := n.file(t)
	whole, r := program(t, file, passes.Options{Train: &autodiff.Options{}})
	want, _ := runSteps(t, whole, vm.Options{}, r.Step.Params, 3)
	sliced, r := program(t, file, passes.Options{
		Train: &autodiff.Options{}, Slices: passes.SlicesAny, Limit: &passes.Limit{Percent: 35}, Effort: schedule.EffortFast, Device: passes.Device{FLOPS: 1e8, Bandwidth: 1e8},
	})
	if r.Plan.Slices == nil || r.Plan.Summary.RecomputedNodes == 0 {
		t.Fatalf("%d nodes run again: expected slices and recomputation", r.Plan.Summary.RecomputedNodes)
	}
	got, _ := runSteps(t, sliced, vm.Options{}, r.Step.Params, 3)
	nearly(t, got, want, 1e-5)
}
