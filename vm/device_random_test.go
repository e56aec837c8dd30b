package vm_test

import (
	"context"
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
