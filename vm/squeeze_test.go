package vm_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// squeezeNet writes a network of quantized convolutions, with a block that averages the
// channels of an image, multiplies the image by a number for each, and adds the image.
func squeezeNet(t *testing.T, mean func(n *net), change func(n *net)) string {
	n := newNet()
	n.input("x", 2, 3, 9, 11)
	n.quantize("x", 0.02, 100)
	n.convolve("a", "x", 0.02, 1, attrs(integers("pads", 1, 1, 1, 1)), 43, 3, 3, 3)
	n.quantize("a", 0.05, 128)
	mean(n)
	n.quantize("m", 0.02, 120)
	n.convolve("f", "m", 0.02, 1, nil, 6, 43, 1, 1)
	n.quantize("f", 0.1, 120)
	n.convolve("g", "f", 0.1, 1, nil, 43, 6, 1, 1)
	n.quantize("g", 0.1, 120)
	n.node("Sigmoid", "s", "g.r")
	n.quantize("s", 1./256, 0)
	n.node("Mul", "e", "s.r", "a.r")
	n.quantize("e", 0.04, 100)
	n.node("Add", "u", "e.r", "a.r")
	n.quantize("u", 0.07, 110)
	n.convolve("y", "u", 0.07, 1, nil, 8, 43, 1, 1)
	n.quantize("y", 0.5, 128)
	n.output("y.r", 2, 8, 9, 11)
	if change != nil {
		change(n)
	}
	path := filepath.Join(t.TempDir(), "squeeze.onnx")
	n.write(t, path)
	return path
}

// The means of channels, images times numbers for each channel, and sums are computed from
// and to bytes, in NCHW and in NHWC. They have the same bits for any workers and memory, and
// the results of the nodes one by one. Nothing of that is done if another node reads the
// reals.
func TestSqueezes(t *testing.T) {
	pool := func(n *net) { n.node("GlobalAveragePool", "m", "a.r") }
	reduce := func(n *net) {
		n.node("ReduceMean", "m", "a.r")
		n.g.Nodes[len(n.g.Nodes)-1].Attrs = attrs(integers("axes", -1, 2))
	}
	all := []string{"a", "e", "f", "g", "m", "u", "y"}
	held := []string{"a", "a.q", "a.r", "e", "e.q", "e.r", "f", "f.q", "f.r", "g", "g.q", "g.r", "m", "m.q", "m.r", "s", "s.q", "s.r", "u", "u.q", "u.r"}
	for _, c := range []struct {
		doc          string
		mean, change func(n *net)
		joined, held []string
	}{
		{"GlobalAveragePool", pool, nil, all, held},
		{"ReduceMean", reduce, nil, all, held},
		{"the image times the numbers", pool, func(n *net) { slices.Reverse(n.nodeOf("e").Inputs) }, all, held},
		{"numbers for all images", pool, func(n *net) {
			n.constant("k", graph.Float32, []int64{1, 43, 1, 1}, slices.Repeat([]any{float32(0.3), float32(0.7)}, 22)[1:]...)
			n.node("Relu", "k2", "k")
			n.quantize("k2", 1./256, 0)
			n.nodeOf("e").Inputs[0] = n.tensor("k2.r")
			n.node("Neg", "z", "s.r")
			n.output("z", 2, 43, 1, 1)
		}, all, slices.Concat(held[:9], held[12:15], held[18:])},
		{"a mean of rows", func(n *net) {
			n.node("ReduceMean", "m3", "a.r")
			n.g.Nodes[len(n.g.Nodes)-1].Attrs = attrs(integers("axes", 3))
			n.node("GlobalAveragePool", "m", "m3")
		}, nil, []string{"a", "f", "g", "y"}, nil},
		{"the image is read as reals, too", pool, func(n *net) {
			n.node("Neg", "z", "a.r")
			n.output("z", 2, 43, 9, 11)
		}, []string{"a", "f", "g", "y"}, nil},
	} {
		t.Run(c.doc, func(t *testing.T) {
			path := squeezeNet(t, c.mean, c.change)
			inputs := map[string]vm.Value{"x": ramp([]graph.Dim{2, 3, 9, 11})}
			var want []byte
			for _, hold := range []bool{false, true} {
				vm.HoldNHWC(t)
				for _, opt := range []vm.Options{{Workers: 1}, {Workers: 3, Poison: true}, {Separate: true}, {Guard: vm.GuardEnd}} {
					opt.Without = leftOut("nhwc", hold)
					p, s := session(t, path, passes.Options{}, opt)
					joined := s.JoinedQuantized()
					if slices.Sort(joined); !slices.Equal(joined, c.joined) {
						t.Errorf("joined: %v, want %v", joined, c.joined)
					}
					if got := s.HeldInNHWC(); c.held != nil && hold && !slices.Equal(got, c.held) {
						t.Errorf("%+v: held in NHWC: %v, want %v", opt, got, c.held)
					}
					out, err := s.Run(t.Context(), inputs)
					if err != nil {
						t.Fatal(err)
					}
					got := out["y.r"]
					if want == nil {
						want = bytes.Clone(got.Data)
						list, _ := got.Reals()
						slices.Sort(list)
						if n := len(slices.Compact(list)); n < 30 {
							t.Errorf("only %d values differ: most are saturated", n)
						}
					}
					if !bytes.Equal(got.Data, want) {
						t.Errorf("pixels %v, %+v: other bits", hold, opt)
					}
					if !opt.Separate {
						checkBoth(t, p, inputs, opt)
					}
				}
			}
		})
	}
}

// squeezeOfBytes writes a network with the operators of ONNX Runtime for a squeeze, and returns
// its path and its inputs.
func squeezeOfBytes(t *testing.T) (string, map[string]vm.Value) {
	t.Helper()
	n := newNet()
	n.other = []graph.Opset{{Domain: "com.microsoft", Version: 1}}
	n.input("x", 2, 3, 9, 11)
	quantized := func(op, out string, scale float32, zero uint8, in ...string) {
		n.constant(out+".scale", graph.Float32, nil, scale)
		n.constant(out+".zero", graph.Uint8, nil, zero)
		n.node(op, out, append(in, out+".scale", out+".zero")...)
		if op != "QuantizeLinear" {
			n.g.Nodes[len(n.g.Nodes)-1].Domain = "com.microsoft"
		}
	}
	of := func(name string) []string { return []string{name, name + ".scale", name + ".zero"} }
	convolution := func(out, in string, scale float32, dims ...int64) {
		var weights []any
		for range dims[0] * dims[1] {
			weights = append(weights, int8(n.draw.IntN(256)-128))
		}
		n.constant(out+".w", graph.Int8, dims, weights...)
		n.constant(out+".w.scale", graph.Float32, nil, float32(0.01))
		n.constant(out+".w.zero", graph.Int8, nil, int8(0))
		quantized("QLinearConv", out, scale, 128, append(of(in), of(out+".w")...)...)
		n.g.Nodes[len(n.g.Nodes)-1].Domain = ""
	}
	quantized("QuantizeLinear", "q", 0.02, 100, "x")
	convolution("a", "q", 0.04, 43, 3, 1, 1)
	quantized("QLinearGlobalAveragePool", "m", 0.02, 120, of("a")...)
	quantized("QLinearSigmoid", "s", 1./256, 0, of("m")...)
	quantized("QLinearMul", "e", 0.04, 100, append(of("a"), of("s")...)...)
	quantized("QLinearAdd", "b", 0.05, 100, append(of("m"), of("e")...)...)
	convolution("c", "b", 0.2, 8, 43, 1, 1)
	n.node("DequantizeLinear", "y", of("c")...)
	n.output("y", 2, 8, 9, 11)
	path := filepath.Join(t.TempDir(), "squeeze.onnx")
	n.write(t, path)
	return path, map[string]vm.Value{"x": ramp([]graph.Dim{2, 3, 9, 11})}
}

// The operators of ONNX Runtime for a squeeze read and write pixels, too, with the bits of
// planes.
func TestSqueezesOfBytes(t *testing.T) {
	path, inputs := squeezeOfBytes(t)
	var want []byte
	for _, hold := range []bool{false, true} {
		vm.HoldNHWC(t)
		p, s := session(t, path, passes.Options{}, vm.Options{Workers: 3, Poison: true, Without: leftOut("nhwc", hold)})
		if got, held := s.HeldInNHWC(), []string{"a", "b", "e", "m", "s"}; hold && !slices.Equal(got, held) {
			t.Errorf("held in NHWC: %v, want %v", got, held)
		}
		out, err := s.Run(t.Context(), inputs)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = bytes.Clone(out["y"].Data)
		}
		if !bytes.Equal(out["y"].Data, want) {
			t.Errorf("pixels %v: other bits", hold)
		}
		checkBoth(t, p, inputs, vm.Options{Poison: true})
	}
}

// TestDeviceSqueezesOfBytes: on a device they give the same bits, and their steps are replayed.
func TestDeviceSqueezesOfBytes(t *testing.T) {
	d, f := onDevice(t)
	path, inputs := squeezeOfBytes(t)
	p, host := session(t, path, passes.Options{}, vm.Options{})
	want, err := host.Run(t.Context(), inputs)
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range modes {
		if f != nil {
			f.Mode(mode)
		}
		s := newSession(t, p, vm.Options{Device: d})
		for range 4 {
			got, err := s.Run(t.Context(), inputs)
			if err != nil {
				t.Fatal(err)
			}
			sameBits(t, mode, got, want)
		}
		if u := s.DeviceUse(); u.FallbackNodes != 0 || u.ReplayedSteps != 2 {
			t.Errorf("%s: %v on the host, %d of 4 steps replayed, expected none and 2", mode, u.FallbackOps, u.ReplayedSteps)
		}
	}
}

// A sum of what no other node reads is left to a chain, which copies nothing.
func TestSumsInChains(t *testing.T) {
	n := newNet()
	n.input("x", 50, 60)
	n.quantize("x", 0.02, 100)
	n.node("Softmax", "a", "x.r")
	n.quantize("a", 0.001, 3)
	n.node("Tanh", "b", "x.r")
	n.quantize("b", 0.01, 130)
	n.node("Add", "s", "a.r", "b.r")
	n.quantize("s", 0.01, 140)
	n.output("s.r", 50, 60)
	path := filepath.Join(t.TempDir(), "sum.onnx")
	n.write(t, path)
	p, s := session(t, path, passes.Options{}, vm.Options{Poison: true})
	if joined, chained := s.JoinedQuantized(), s.Chained(); len(joined) > 0 || !slices.Contains(chained, "s") {
		t.Errorf("joined: %v, chained: %v", joined, chained)
	}
	checkBoth(t, p, map[string]vm.Value{"x": ramp([]graph.Dim{50, 60})}, vm.Options{Poison: true})
}
