package vm_test

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/vm"
)

// constant adds an initializer.
func (n *net) constant(name string, d graph.DType, dims []int64, list ...any) {
	var raw []byte
	for _, v := range list {
		raw, _ = binary.Append(raw, binary.LittleEndian, v)
	}
	n.g.Tensors[n.tensor(name)].Data = &graph.Data{Name: name, Type: d, Dims: dims, Raw: raw, Bytes: int64(len(raw))}
}

// quantize adds name.q, the bytes of a tensor, and name.r, the reals that they represent.
func (n *net) quantize(name string, scale float32, zero uint8) {
	n.constant(name+".scale", graph.Float32, nil, scale)
	n.constant(name+".zero", graph.Uint8, nil, zero)
	n.node("QuantizeLinear", name+".q", name, name+".scale", name+".zero")
	n.node("DequantizeLinear", name+".r", name+".q", name+".scale", name+".zero")
}

// convolve adds a convolution of in.r by random bytes, whose bias has the scale that it
// should have, times off. Each channel has its own scale.
func (n *net) convolve(out, in string, scale, off float32, attrs []*graph.Attr, dims ...int64) {
	w, b := out+".w", out+".b"
	channels, taps := dims[0], dims[1]*dims[2]*dims[3]
	var scales, units, weights, bias, zeros []any
	for i := range channels {
		s := float32(i+1) / 512
		scales, units = append(scales, s), append(units, scale*s*off)
		bias, zeros = append(bias, int32(n.draw.IntN(2000)-1000)), append(zeros, int8(i%3))
		for range taps {
			weights = append(weights, int8(n.draw.IntN(256)-128))
		}
	}
	n.constant(w+".q", graph.Int8, dims, weights...)
	n.constant(w+".scale", graph.Float32, []int64{channels}, scales...)
	n.constant(w+".zero", graph.Int8, []int64{channels}, zeros...)
	n.constant(b+".q", graph.Int32, []int64{channels}, bias...)
	n.constant(b+".scale", graph.Float32, []int64{channels}, units...)
	for _, t := range []string{w, b} {
		in := []string{t + ".q", t + ".scale"}
		if t == w {
			in = append(in, w+".zero")
		}
		n.node("DequantizeLinear", t, in...)
		n.g.Nodes[len(n.g.Nodes)-1].Attrs = axisAttr(0)
	}
	n.node("Conv", out, in+".r", w, b)
	n.g.Nodes[len(n.g.Nodes)-1].Attrs = attrs
}

// quantizedNet writes a network of quantized convolutions: of single pixels, of single
// channels, and of a tensor that Sub reads as reals, too.
func quantizedNet(t *testing.T, off float32, change func(n *net)) string {
	n := newNet()
	n.input("x", 1, 3, 12, 13)
	n.quantize("x", 0.02, 100)
	n.convolve("a", "x", 0.02, 1, nil, 20, 3, 1, 1)
	n.quantize("a", 0.05, 128)
	n.convolve("d", "a", 0.05, 1, attrs(attr("group", 20), integers("pads", 1, 1, 1, 1)), 20, 1, 3, 3)
	n.quantize("d", 0.1, 120)
	n.convolve("e", "d", 0.1, off, attrs(integers("pads", 1, 1, 1, 1)), 20, 20, 3, 3)
	n.quantize("e", 0.7, 127)
	n.node("Sub", "s", "d.r", "e.r")
	n.quantize("s", 0.7, 127)
	n.convolve("y", "s", 0.7, 1, attrs(integers("strides", 2, 2), attr("group", 2)), 8, 10, 2, 3)
	n.quantize("y", 3, 128)
	n.output("y.r", 1, 8, 6, 6)
	if change != nil {
		change(n)
	}
	path := filepath.Join(t.TempDir(), "net.onnx")
	n.write(t, path)
	return path
}

// Convolutions between DequantizeLinear and QuantizeLinear are computed as products of
// integers, with the bits of a run without shared memory and of one without packed
// weights, and with the results of the three nodes.
func TestQuantizedConvolutions(t *testing.T) {
	path := quantizedNet(t, 1, nil)
	inputs := map[string]vm.Value{"x": ramp([]graph.Dim{1, 3, 12, 13})}
	var want []byte
	for _, c := range []struct {
		doc string
		opt vm.Options
	}{
		{"one worker", vm.Options{Workers: 1}},
		{"three workers", vm.Options{Workers: 3, Poison: true}},
		{"not packed", vm.Options{NoPack: true}},
		{"separate tensors", vm.Options{Separate: true}},
		{"guard behind", vm.Options{Guard: vm.GuardEnd}},
		{"guard in front", vm.Options{Guard: vm.GuardFront}},
	} {
		t.Run(c.doc, func(t *testing.T) {
			opt := c.opt
			p, s := session(t, path, passes.Options{}, opt)
			joined := s.JoinedQuantized()
			if slices.Sort(joined); !slices.Equal(joined, []string{"a", "d", "e", "y"}) {
				t.Errorf("joined: %v", joined)
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
				if n := len(slices.Compact(list)); n < 50 {
					t.Errorf("only %d values differ: most are saturated", n)
				}
			}
			if !bytes.Equal(got.Data, want) {
				t.Error("other bits than with one worker")
			}
			if opt.Separate {
				return
			}
			checkBoth(t, p, inputs, opt)
		})
	}
}

// TestByteCopies: bytes between two convolutions lie in one place, and nothing copies them. With
// separate tensors each has its own place, and the bits are the same.
func TestByteCopies(t *testing.T) {
	path := quantizedNet(t, 1, nil)
	inputs := map[string]vm.Value{"x": ramp([]graph.Dim{1, 3, 12, 13})}
	var want []byte
	for _, separate := range []bool{false, true} {
		_, s := session(t, path, passes.Options{}, vm.Options{Workers: 2, Separate: separate, Poison: true})
		for name, at := range map[string]string{"a.q": "a", "a.r": "d"} {
			if separate {
				at = name
			}
			if found := s.KernelOf(name); found != at {
				t.Errorf("separate tensors %t: node %q is done by %q, expected %q", separate, name, found, at)
			}
		}
		out, err := s.Run(t.Context(), inputs)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = bytes.Clone(out["y.r"].Data)
		}
		if !bytes.Equal(out["y.r"].Data, want) {
			t.Error("other bits with separate tensors")
		}
	}
}

// productNet writes a network of quantized matrix products: of a batch of matrices, with
// one scale for each column, and of Gemm with transposed weights and a bias.
func productNet(t *testing.T, change func(n *net)) string {
	n := newNet()
	n.input("x", 2, 5, 33)
	n.quantize("x", 0.02, 100)
	n.multiply("m", "MatMul", "x", 0.02, 1, 33, 40)
	n.quantize("m", 0.05, 128)
	n.multiply("c", "MatMul", "m", 0.05, 40, 40, 40)
	n.quantize("c", 0.4, 125)
	n.constant("rows", graph.Int64, []int64{2}, int64(10), int64(40))
	n.node("Reshape", "r", "c.r", "rows")
	n.quantize("r", 0.4, 125)
	n.multiply("g", "Gemm", "r", 0.4, 19, 19, 40)
	n.g.Nodes[len(n.g.Nodes)-1].Attrs = attrs(attr("transB", 1))
	n.quantize("g", 3, 120)
	n.output("g.r", 10, 19)
	if change != nil {
		change(n)
	}
	path := filepath.Join(t.TempDir(), "products.onnx")
	n.write(t, path)
	return path
}

// multiply adds a product of in.r with random bytes. Each of the channels has its own scale
// if there are as many scales. Gemm has a bias.
func (n *net) multiply(out, op, in string, scale float32, scales int64, dims ...int64) {
	w, axis := out+".w", int64(1)
	var list, units, weights, bias []any
	for i := range scales {
		s := float32(i+1) / 512
		list, units, bias = append(list, s), append(units, scale*s), append(bias, int32(n.draw.IntN(2000)-1000))
	}
	for range dims[0] * dims[1] {
		weights = append(weights, int8(n.draw.IntN(256)-128))
	}
	shape := []int64{scales}
	if scales == 1 {
		shape = nil
	}
	n.constant(w+".q", graph.Int8, dims, weights...)
	n.constant(w+".scale", graph.Float32, shape, list...)
	n.node("DequantizeLinear", w, w+".q", w+".scale")
	inputs := []string{in + ".r", w}
	if op == "Gemm" {
		axis = 0
		n.constant(out+".b.q", graph.Int32, shape, bias...)
		n.constant(out+".b.scale", graph.Float32, shape, units...)
	}
	n.g.Nodes[len(n.g.Nodes)-1].Attrs = axisAttr(axis)
	if op == "Gemm" {
		n.node("DequantizeLinear", out+".b", out+".b.q", out+".b.scale")
		n.g.Nodes[len(n.g.Nodes)-1].Attrs = axisAttr(0)
		inputs = append(inputs, out+".b")
	}
	n.node(op, out, inputs...)
}

// Matrix products between DequantizeLinear and QuantizeLinear are computed as products of
// integers, with the same bits for any workers and memory, and with the results of the
// three nodes. A Gemm that scales its parts stays real.
func TestQuantizedProducts(t *testing.T) {
	inputs := map[string]vm.Value{"x": ramp([]graph.Dim{2, 5, 33})}
	for _, c := range []struct {
		doc    string
		change func(n *net)
		want   []string
	}{
		{"all", nil, []string{"c", "g", "m"}},
		{"alpha", func(n *net) { n.nodeOf("g").Attrs = attrs(attr("transB", 1), attr("alpha", float32(0.5))) }, []string{"c", "m"}},
		{"beta", func(n *net) { n.nodeOf("g").Attrs = attrs(attr("transB", 1), attr("beta", float32(2))) }, []string{"c", "m"}},
		{"scales of rows", func(n *net) { n.nodeOf("c.w").Attrs = axisAttr(0) }, []string{"g", "m"}},
	} {
		t.Run(c.doc, func(t *testing.T) {
			path := productNet(t, c.change)
			var want []byte
			for _, opt := range []vm.Options{{Workers: 1}, {Workers: 3, Poison: true}, {NoPack: true}, {Guard: vm.GuardEnd}, {Separate: true}} {
				p, s := session(t, path, passes.Options{}, opt)
				joined := s.JoinedQuantized()
				if slices.Sort(joined); !slices.Equal(joined, c.want) {
					t.Errorf("joined: %v, want %v", joined, c.want)
				}
				out, err := s.Run(t.Context(), inputs)
				if err != nil {
					t.Fatal(err)
				}
				got := out["g.r"]
				if want == nil {
					want = bytes.Clone(got.Data)
					list, _ := got.Reals()
					slices.Sort(list)
					if n := len(slices.Compact(list)); n < 30 {
						t.Errorf("only %d values differ: most are saturated", n)
					}
				}
				if !bytes.Equal(got.Data, want) {
					t.Errorf("%+v: other bits than with one worker", opt)
				}
				if !opt.Separate {
					checkBoth(t, p, inputs, opt)
				}
			}
		})
	}
}

// nodeOf returns the node with a name.
func (n *net) nodeOf(name string) *graph.Node {
	for _, k := range n.g.Nodes {
		if k.Name == name {
			return k
		}
	}
	panic(name)
}

// checkBoth compares a run with one in separate memory, and each node with the
// evaluator.
func checkBoth(t *testing.T, p *vm.Program, inputs map[string]vm.Value, opt vm.Options) {
	t.Helper()
	runs := []map[string]vm.Value{inputs}
	if found, err := p.CheckRun(t.Context(), runs, opt); err != nil || !found.Identical() {
		t.Errorf("%+v, %v", found, err)
	}
	found, err := p.CheckReference(t.Context(), runs, opt)
	if err != nil || found.Wrong > 0 || len(found.Uncompared) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestJoiners: the operators that are computed from and to bytes are those of the column
// Joins, by which regions of slices keep them with their neighbours.
func TestJoiners(t *testing.T) {
	for _, name := range ops.Names("") {
		if want := ops.Lookup("", name).Joins; vm.Joins(name) != want {
			t.Errorf("%s is computed from and to bytes: %t, column Joins: %t", name, !want, want)
		}
	}
}

// TestQuantizedNetworksKeepBits: whatever saves memory, a quantized network has the bits of the
// plan without it: what is computed from and to bytes still is.
func TestQuantizedNetworksKeepBits(t *testing.T) {
	wide := newNet() // weights whose reals are the peak
	wide.input("x", 1, 8)
	wide.quantize("x", 0.02, 100)
	wide.multiply("a", "MatMul", "x", 0.02, 1, 8, 12)
	wide.quantize("a", 0.05, 128)
	wide.multiply("y", "MatMul", "a", 0.05, 1, 12, 40)
	wide.quantize("y", 0.01, 128)
	wide.output("y.r", 1, 40)
	path := filepath.Join(t.TempDir(), "wide.onnx")
	wide.write(t, path)
	far := newNet() // x.r is read again behind a chain, and sums are half a step of the result
	far.input("x", 64, 40)
	far.quantize("x", 0.03, 100)
	far.multiply("a", "MatMul", "x", 0.03, 1, 40, 8)
	far.quantize("a", 0.03, 128)
	last := "a"
	for _, name := range []string{"b", "c", "d", "e", "f", "g"} {
		far.multiply(name, "MatMul", last, 0.03, 1, 8, 8)
		far.quantize(name, 0.03, 128)
		last = name
	}
	far.multiply("z", "MatMul", "x", 0.03, 1, 40, 40)
	far.quantize("z", 0.03, 128)
	far.output("z.r", 64, 40)
	far.output(last+".r", 64, 8)
	apart := filepath.Join(t.TempDir(), "far.onnx")
	far.write(t, apart)
	planned := 0
	for name, path := range map[string]string{"convolutions": quantizedNet(t, 1, nil), "products": productNet(t, nil), "weights": path, "far": apart} {
		whole, r := program(t, path, passes.Options{Fold: passes.FoldOff})
		want, _ := runSteps(t, whole, vm.Options{}, nil, 1)
		peak := r.Plan.Summary.PeakBytes
		for _, opt := range []passes.Options{
			{Slices: passes.SlicesExact, ExtraPercent: 50},
			{Slices: passes.SlicesAny, ExtraPercent: 1000, Compact: true},
			{Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: 60}},
			{Limit: &passes.Limit{Percent: 90}},
			{Limit: &passes.Limit{Percent: 90}, Host: &passes.Host{Link: 1e9}},
			{Pools: []passes.Pool{{Name: "fast", Capacity: peak / 2}, {Name: "slow", Capacity: 2 * peak}}},
			{Schedule: "program", Pools: []passes.Pool{{Name: "fast", Capacity: 14_000}, {Name: "slow", Capacity: 10 * peak}}},
			{Pools: []passes.Pool{{Name: "fast", Capacity: peak / 2}, {Name: "slow", Capacity: 2 * peak}}, Slices: passes.SlicesExact},
		} {
			opt.Effort = schedule.EffortFast
			r, err := passes.Optimize(t.Context(), open(t, path).Model, opt)
			if err != nil {
				continue // no such limit
			}
			p, err := vm.New(r.Model, r.Plan)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := runSteps(t, p, vm.Options{}, nil, 1)
			sameBits(t, name, got, want)
			if planned++; t.Failed() {
				t.Fatalf("%+v", opt)
			}
			p.Close()
		}
	}
	if planned < 12 {
		t.Errorf("%d plans: expected more", planned)
	}
}

// A convolution is not joined if that could change more than the rounding of its sums.
func TestConvolutionsThatStayReal(t *testing.T) {
	for _, c := range []struct {
		doc    string
		off    float32
		change func(n *net)
		want   []string
	}{
		{"the bias has other units", 1.5, nil, []string{"a", "d", "y"}},
		{"a bias of 0 has any units", 1.5, func(n *net) {
			d := n.g.Tensors[n.tensor("e.b.q")].Data
			clear(d.Raw)
		}, []string{"a", "d", "e", "y"}},
		{"a bias reaches the convolution through Identity", 1.5, func(n *net) {
			for _, name := range []string{"a", "e"} {
				n.node("Identity", name+".shared", name+".b")
				n.nodeOf(name).Inputs[2] = n.tensor(name + ".shared")
			}
		}, []string{"a", "d", "y"}},
		{"the result is read as reals, too", 1, func(n *net) {
			n.node("Neg", "z", "a")
			n.output("z", 1, 20, 12, 13)
		}, []string{"d", "e", "y"}},
		{"the sums may exceed 32 bits", 1, func(n *net) {
			d := n.g.Tensors[n.tensor("d.b.q")].Data
			binary.LittleEndian.PutUint32(d.Raw, 1<<31-1)
		}, []string{"a", "e", "y"}},
		{"a scale from which bytes cannot be recovered", 1, func(n *net) {
			n.constant("y.scale", graph.Float32, nil, float32(0))
		}, []string{"a", "d", "e"}},
		{"the bias has a zero point", 1, func(n *net) {
			n.constant("a.b.zero", graph.Int32, []int64{20}, make([]int32, 19), int32(7))
			for _, k := range n.g.Nodes {
				if k.Name == "a.b" {
					k.Inputs = append(k.Inputs, n.tensor("a.b.zero"))
				}
			}
		}, []string{"d", "e", "y"}},
		{"the reals are of float16, their scales of float32", 1, func(n *net) {
			n.opset = 23
			for _, k := range n.g.Nodes {
				switch k.Name {
				case "x.r", "a.w", "a.b":
					k.Attrs = append(k.Attrs, attr("output_dtype", int(graph.Float16)))
				}
			}
			n.node("Neg", "z", "x.r") // else no convolution would read x.r as reals
			n.output("z", 1, 3, 12, 13)
			n.g.Tensors[n.tensor("z")].Declared.Type.Elem = graph.Float16
		}, []string{"d", "e", "y"}},
	} {
		t.Run(c.doc, func(t *testing.T) {
			p, s := session(t, quantizedNet(t, c.off, c.change), passes.Options{}, vm.Options{})
			joined := s.JoinedQuantized()
			if slices.Sort(joined); !slices.Equal(joined, c.want) {
				t.Errorf("joined: %v, want %v", joined, c.want)
			}
			checkBoth(t, p, map[string]vm.Value{"x": ramp([]graph.Dim{1, 3, 12, 13})}, vm.Options{Poison: true})
		})
	}
}
