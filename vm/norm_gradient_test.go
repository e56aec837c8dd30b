package vm_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/marks"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/fake"
)

// convolutional writes a classifier of 3 classes: some convolutions of an image, each with a
// BatchNormalization and perhaps an activation, and sums of what they make. In its step,
// nodes between those of a gradient, and other readers, stand where the draw puts them.
func convolutional(t *testing.T, draw *rand.Rand) (path string, batch int64) {
	n := newNet()
	batch = 1 + draw.Int64N(3)
	size := 1 + draw.Int64N(9)
	channels := 1 + draw.Int64N(8)
	n.input("x", graph.Dim(batch), graph.Dim(channels), graph.Dim(size), graph.Dim(size))
	made := []string{"x"}
	for k := range 3 + draw.IntN(4) {
		at := fmt.Sprintf("l%d", k)
		from := made[max(0, len(made)-1-draw.IntN(5)/4)]
		n.weight(at+".w", channels, channels, 3, 3)
		for _, name := range []string{".scale", ".bias", ".mean", ".variance"} {
			n.weight(at+name, channels)
		}
		for raw := n.g.Tensors[n.tensor(at+".variance")].Data.Raw; len(raw) > 0; raw = raw[4:] {
			raw[3] &= 0x7f // no negative one
		}
		n.node("Conv", at+".conv", from, at+".w")
		n.g.Nodes[len(n.g.Nodes)-1].Attrs = []*graph.Attr{integers("pads", 1, 1, 1, 1)}
		n.node("BatchNormalization", at+".bn", at+".conv", at+".scale", at+".bias", at+".mean", at+".variance")
		last := at + ".bn"
		switch draw.IntN(4) {
		case 0:
			n.node("Relu", at+".act", last)
			last = at + ".act"
		case 1:
			n.node("Sigmoid", at+".gate", last)
			n.node("Mul", at+".act", last, at+".gate")
			last = at + ".act"
		case 2:
			n.node("Add", at+".sum", last, made[draw.IntN(len(made))])
			n.node("Relu", at+".act", at+".sum")
			last = at + ".act"
		}
		made = append(made, last)
	}
	n.node("GlobalAveragePool", "pool", made[len(made)-1])
	n.node("Flatten", "flat", "pool")
	n.weight("w", channels, 3)
	n.node("MatMul", "logits", "flat", "w")
	n.output("logits", graph.Dim(batch), 3)
	path = filepath.Join(t.TempDir(), "net.onnx")
	n.write(t, path)
	return path, batch
}

// rowwise writes a classifier of 3 classes: some products of rows, with a
// LayerNormalization before or behind each, perhaps an activation, and sums of what they make.
func rowwise(t *testing.T, draw *rand.Rand) (path string, batch int64) {
	n := newNet()
	batch = 1 + draw.Int64N(3)
	tokens := 24 + draw.Int64N(17)
	width := 4 * (16 + draw.Int64N(5))
	n.input("x", graph.Dim(batch), graph.Dim(tokens), graph.Dim(width))
	made := []string{"x"}
	for k := range 5 + draw.IntN(2) {
		at := fmt.Sprintf("l%d", k)
		last := made[max(0, len(made)-1-draw.IntN(5)/4)]
		norm := func() {
			n.weight(at+".scale", width)
			n.weight(at+".bias", width)
			n.node("LayerNormalization", at+".norm", last, at+".scale", at+".bias")
			last = at + ".norm"
		}
		before := draw.IntN(2) == 0
		if before {
			norm()
		}
		n.weight(at+".w", width, width)
		n.node("MatMul", at+".product", last, at+".w")
		last = at + ".product"
		switch draw.IntN(3) {
		case 0:
			n.node("Relu", at+".act", last)
			last = at + ".act"
		case 1:
			n.node("Add", at+".sum", last, made[draw.IntN(len(made))])
			last = at + ".sum"
		}
		if !before {
			norm()
		}
		made = append(made, last)
	}
	n.node("ReduceMean", "pool", made[len(made)-1])
	n.g.Nodes[len(n.g.Nodes)-1].Attrs = []*graph.Attr{integers("axes", 1), integer("keepdims", 0)}
	n.weight("w", width, 3)
	n.node("MatMul", "logits", "pool", "w")
	n.output("logits", graph.Dim(batch), 3)
	path = filepath.Join(t.TempDir(), "net.onnx")
	n.write(t, path)
	return path, batch
}

// The gradient of a BatchNormalization is computed at once where its place allows it, and
// has the bits of the nodes that run one by one, whatever stands between them.
func TestNormGradients(t *testing.T) {
	normGradients(t, nil, nil, convolutional, 90, marks.BatchNormGradient, 16, 30, nil)
}

// So it is between Casts, where images have 16 bits.
func TestNormGradientsOf16Bits(t *testing.T) {
	normGradients(t, nil, nil, convolutional, 0, marks.BatchNormGradient, 12, 20, &passes.Precision{Type: graph.Float16})
	normGradients(t, nil, nil, convolutional, 0, marks.BatchNormGradient, 12, 20, &passes.Precision{Type: graph.BFloat16})
}

// So it is on a device, if there are enough channels or elements of them.
func TestDeviceNormGradients(t *testing.T) {
	d, f := onDevice(t)
	normGradients(t, d, f, convolutional, 90, marks.BatchNormGradient, 8, 9, nil)
}

// On a device, so is the gradient of a LayerNormalization.
func TestDeviceLayerGradients(t *testing.T) {
	d, f := onDevice(t)
	normGradients(t, d, f, rowwise, 98, marks.LayerNormGradient, 6, 6, nil)
}

// normGradients checks the steps of some networks. It expects all marked groups to be
// whole, unless nodes run again (a limit of more than 0 %), and at least some to be computed at once: the plan decides. The
// fake device, if there is one, works in one order after the other.
func normGradients(t *testing.T, d *cuda.Device, f *fake.Fake, network func(*testing.T, *rand.Rand) (string, int64), percent float64, group *marks.Group, networks uint64, least int, precision *passes.Precision) {
	t.Helper()
	joined := 0
	for seed := range networks {
		draw := rand.New(rand.NewPCG(seed, 5))
		if f != nil {
			f.Mode(modes[seed%uint64(len(modes))])
		}
		path, batch := network(t, draw)
		opt := passes.Options{Precision: precision, Train: &autodiff.Options{Optimizer: []string{"sgd", "adamw", "momentum"}[seed%3]}}
		switch {
		case seed%4 == 2 && percent > 0:
			opt.Limit, opt.Effort = &passes.Limit{Percent: percent}, schedule.EffortFast
		case seed%4 == 3:
			opt.NoInplace = true
		}
		p, r := program(t, path, opt)
		s := newSession(t, p, vm.Options{Poison: true, Device: d})
		ends := 0
		for _, n := range r.Model.Graph.Nodes {
			if mark, _ := n.Prop(marks.Key); strings.HasPrefix(mark, group.Name+"/") && strings.HasSuffix(mark, " result") {
				ends++
			}
		}
		found := marks.Find(r.Model.Graph)
		if len(found) != ends && opt.Limit == nil || len(found) == 0 {
			t.Errorf("seed %d: %d of %d groups are whole", seed, len(found), ends)
		}
		grouped := slices.Sorted(slices.Values(s.NormGradients()))
		for _, f := range found {
			if slices.Contains(grouped, r.Model.Graph.Nodes[f.Nodes[len(f.Nodes)-1]].Name) {
				joined++
			}
		}
		params, err := vm.OpenInitializers(r.Step.Params)
		if err != nil {
			t.Fatal(err)
		}
		defer params.Close()
		labels := make([]int64, batch)
		for i := range labels {
			labels[i] = int64(i) % 3
		}
		inputs := map[string]vm.Value{
			"x": ramp(p.Inputs()[0].Type.Shape), "labels": vm.Int64s(labels, int(batch)), "learning_rate": vm.Float32s([]float32{0.01}),
		}
		start := maps.Clone(params.Values)
		maps.Copy(start, inputs)
		check, err := p.CheckRun(t.Context(), []map[string]vm.Value{start, inputs, inputs}, vm.Options{Poison: true, Device: d})
		if err != nil || !check.Identical() || check.First != nil {
			t.Errorf("seed %d: %+v, %v", seed, check, err)
		}
		if d != nil {
			continue
		}
		p.Trim()
		if trimmed := newSession(t, p, vm.Options{}); !slices.Equal(slices.Sorted(slices.Values(trimmed.NormGradients())), grouped) {
			t.Errorf("seed %d: other groups are computed at once after Trim", seed)
		}
	}
	if joined < least {
		t.Errorf("%d gradients were computed at once, expected %d or more", joined, least)
	}
}
