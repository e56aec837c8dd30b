package vm_test

import (
	"context"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm"
)

// TestDeviceDropout: a Dropout on a device drops in each step what it drops on the host,
// also where steps are replayed and beside other nodes of its kernel.
func TestDeviceDropout(t *testing.T) {
	d, _ := onDevice(t)
	n := newNet()
	n.input("x", 5, 40)
	n.input("ratio")
	n.input("train")
	n.g.Tensors[n.tensor("train")].Declared.Type = graph.TensorOf(graph.Bool)
	n.output("y", 5, 40)
	n.node("Relu", "h", "x")
	n.node("Dropout", "k", "h", "ratio", "train")
	n.node("Neg", "y", "k")
	p, err := planGraph(n.g, []graph.Opset{{Version: 17}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	host, device := newSession(t, p, vm.Options{Seed: 7}), newSession(t, p, vm.Options{Seed: 7, Device: d})
	x := make([]float32, 200)
	for i := range x {
		x[i] = float32(i%11) + 1
	}
	var last map[string]vm.Value
	for step := range 5 {
		in := map[string]vm.Value{
			"x": vm.Float32s(x, 5, 40), "ratio": vm.Float32s([]float32{0.25}),
			"train": {Type: graph.Bool, Shape: []int{}, Data: []byte{byte(min(step, 1))}},
		}
		want, err := host.Run(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := device.Run(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		sameBits(t, "on a device", got, want)
		if step > 1 && string(got["y"].Data) == string(last["y"].Data) {
			t.Errorf("step %d drops the same as the one before", step)
		}
		last = map[string]vm.Value{"y": {Data: append([]byte{}, got["y"].Data...)}}
	}
	if u := device.DeviceUse(); u.FallbackNodes != 0 || u.ReplayedSteps != 3 {
		t.Errorf("%d nodes on the host, %d of 5 steps replayed, expected none and 3", u.FallbackNodes, u.ReplayedSteps)
	}
}

// TestDeviceDraws: nodes that draw numbers draw on a device what they draw on the host, again
// in each step, also where steps are replayed. In the body of a loop, where each iteration
// draws again, they run on the host.
func TestDeviceDraws(t *testing.T) {
	d, _ := onDevice(t)
	n := newNet()
	n.input("x", 3, 40)
	n.node("Sigmoid", "p", "x")
	n.node("Bernoulli", "b", "p")
	n.node("RandomNormalLike", "r", "x")
	n.with("RandomUniform", "u", []*graph.Attr{{Name: "shape", Type: graph.AttrInts, Ints: []int64{3, 40}}})
	n.with("Multinomial", "m", []*graph.Attr{{Name: "sample_size", Type: graph.AttrInt, Int: 70}}, "x")
	n.node("Add", "s", "r", "u")
	n.node("Mul", "y", "s", "b")
	n.output("y", 3, 40)
	n.output("m", 3, 70)
	n.g.Tensors[n.tensor("m")].Declared.Type = graph.TensorOf(graph.Int32, 3, 70)

	body := newNet()
	body.input("i")
	body.g.Tensors[body.tensor("i")].Declared.Type = graph.TensorOf(graph.Int64)
	body.input("go")
	body.g.Tensors[body.tensor("go")].Declared.Type = graph.TensorOf(graph.Bool)
	body.input("v", 3, 40)
	body.node("RandomUniformLike", "w", "v")
	body.node("Add", "next", "v", "w")
	body.node("Identity", "on", "go")
	body.g.Outputs = []graph.TensorID{body.tensor("on"), body.tensor("next")}
	body.g.Link()
	loop := newNet()
	loop.input("x", 3, 40)
	loop.constant("times", graph.Int64, nil, int64(3))
	loop.node("Loop", "y", "times", "", "x")
	k := loop.nodeOf("y")
	k.Inputs[1] = graph.None
	k.Attrs = []*graph.Attr{{Name: "body", Type: graph.AttrGraph, Graph: body.g}}
	loop.output("y", 3, 40)

	for _, test := range []struct {
		name     string
		net      *net
		onHost   []string
		replayed int
	}{{"nodes", n, nil, 3}, {"a loop", loop, []string{"Loop", "RandomUniformLike"}, 0}} {
		p, err := planGraph(test.net.g, []graph.Opset{{Version: 17}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		host, device := newSession(t, p, vm.Options{Seed: 7}), newSession(t, p, vm.Options{Seed: 7, Device: d})
		x := make([]float32, 120)
		for i := range x {
			x[i] = float32(i%11)/5 - 1
		}
		in := map[string]vm.Value{"x": vm.Float32s(x, 3, 40)}
		var last []byte
		for step := range 5 {
			want, err := host.Run(context.Background(), in)
			if err != nil {
				t.Fatal(err)
			}
			got, err := device.Run(context.Background(), in)
			if err != nil {
				t.Fatal(err)
			}
			sameBits(t, test.name+" on a device", got, want)
			if y := string(got["y"].Data); y == string(last) {
				t.Errorf("%s: step %d draws the same as the one before", test.name, step)
			}
			last = slices.Clone(got["y"].Data)
		}
		if u := device.DeviceUse(); !slices.Equal(slices.Sorted(slices.Values(u.FallbackOps)), test.onHost) || u.ReplayedSteps != test.replayed {
			t.Errorf("%s: %v on the host, %d of 5 steps replayed, expected %v and %d", test.name, u.FallbackOps, u.ReplayedSteps, test.onHost, test.replayed)
		}
	}
}
