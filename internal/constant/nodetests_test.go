package constant

import (
	"bytes"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/internal/nodetests"
	"github.com/onnxmem/onnxmem/onnx"
)

// TestNodeTests: ONNX's operator tests expect the bits that Eval computes. What it
// refuses, it refuses for a reason that is listed.
func TestNodeTests(t *testing.T) {
	tests, err := nodetests.Read(datafolder.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	computed, refused := map[string]int{}, map[string]string{}
	for _, test := range tests {
		m, err := onnx.Parse(test.Name, test.Model())
		if err != nil || len(m.Graph.Nodes) != 1 || !Known(m.Graph.Nodes[0]) {
			continue
		}
		g, n := m.Graph, m.Graph.Nodes[0]
		read := func(b []byte) *Tensor {
			d, err := onnx.ParseTensor(test.Name, b)
			if err != nil {
				return nil
			}
			x, err := NewFiles(m).Read(d)
			if err != nil {
				return nil
			}
			return x
		}
		in, out, want := make([]*Tensor, len(n.Inputs)), make([]*Tensor, len(n.Outputs)), make([]*Tensor, len(n.Outputs))
		complete := true
		for i, id := range n.Inputs {
			for k, input := range g.Inputs {
				if input == id && test.Input(k) != nil {
					in[i] = read(test.Input(k))
					complete = complete && in[i] != nil
				}
			}
		}
		for i, id := range n.Outputs {
			for k, output := range g.Outputs {
				if output == id {
					want[i] = read(test.Output(k))
					if complete = complete && want[i] != nil; complete {
						out[i] = &Tensor{Type: want[i].Type, Shape: want[i].Shape}
					}
				}
			}
		}
		if !complete {
			continue // sequences, texts
		}
		if err := Eval(n, m.Opset(n.Domain), in, out); err != nil {
			refused[n.Op] = test.Name + ": " + err.Error()
			continue
		}
		computed[n.Op]++
		for i := range out {
			if out[i] != nil && !bytes.Equal(out[i].Raw, want[i].Raw) {
				t.Errorf("%s: output %d: % x, expected % x", test.Name, i, head(out[i].Raw), head(want[i].Raw))
			}
		}
	}
	for op := range rules {
		if computed[op] == 0 && op != "Cast" && op != "CastLike" { // their tests have NaNs: see TestCast
			t.Errorf("%s: no test was computed: %s", op, refused[op])
		}
	}
}

func head(b []byte) []byte { return b[:min(len(b), 32)] }

// TestRefused: runtimes disagree on these, or the processor decides.
func TestRefused(t *testing.T) {
	real := func(v ...float32) *Tensor {
		return &Tensor{Type: graph.Float32, Shape: []int64{int64(len(v))}, Raw: floats(v...)}
	}
	ints := func(v ...int64) *Tensor {
		x := &Tensor{Type: graph.Int64, Shape: []int64{int64(len(v))}}
		x.Raw = make([]byte, 8*len(v))
		for i, k := range v {
			x.setInteger(i, k)
		}
		return x
	}
	zero := float32(0)
	for _, c := range []struct {
		name, op string
		in       []*Tensor
		out      graph.DType
	}{
		{"0 / 0", "Div", []*Tensor{real(0), real(0)}, graph.Float32},
		{"inf - inf", "Sub", []*Tensor{real(1 / zero), real(1 / zero)}, graph.Float32},
		{"the root of -1", "Sqrt", []*Tensor{real(-1)}, graph.Float32},
		{"1 / 0 in integers", "Div", []*Tensor{ints(1), ints(0)}, graph.Int64},
		{"1e20 as int64", "Cast", []*Tensor{real(1e20)}, graph.Int64},
		{"a position outside", "Gather", []*Tensor{real(1, 2), ints(2)}, graph.Float32},
		{"an operator that sums", "Softmax", []*Tensor{real(1)}, graph.Float32},
	} {
		out := &Tensor{Type: c.out, Shape: []int64{1}}
		if err := Eval(&graph.Node{Op: c.op}, 17, c.in, []*Tensor{out}); err == nil {
			t.Errorf("%s: computed % x, expected an error", c.name, out.Raw)
		}
	}
}

// TestShapeDiffers: a shape that the file declares is not believed if an input says
// otherwise.
func TestShapeDiffers(t *testing.T) {
	of := func(typ graph.DType, shape ...int64) *Tensor {
		x := &Tensor{Type: typ, Shape: shape}
		x.Raw = make([]byte, x.len()*x.width())
		return x
	}
	list := func(v ...int64) *Tensor {
		x := of(graph.Int64, int64(len(v)))
		for i, k := range v {
			x.setInteger(i, k)
		}
		return x
	}
	for _, c := range []struct {
		op           string
		in           []*Tensor
		right, wrong [][]int64 // shapes of the outputs
	}{
		{"Reshape", []*Tensor{of(graph.Float32, 12), list(4, -1)}, [][]int64{{4, 3}}, [][]int64{{6, 2}}},
		{"Squeeze", []*Tensor{of(graph.Float32, 1, 3, 1), list(0)}, [][]int64{{3, 1}}, [][]int64{{1, 3}}},
		{"Unsqueeze", []*Tensor{of(graph.Float32, 3), list(-1)}, [][]int64{{3, 1}}, [][]int64{{1, 3}}},
		{"Expand", []*Tensor{of(graph.Float32, 1, 3), list(4, 1)}, [][]int64{{4, 3}}, [][]int64{{2, 3}}},
		{"Tile", []*Tensor{of(graph.Float32, 1, 3), list(4, 1)}, [][]int64{{4, 3}}, [][]int64{{2, 3}}},
		{"Split", []*Tensor{of(graph.Float32, 7), list(4, 3)}, [][]int64{{4}, {3}}, [][]int64{{5}, {2}}},
		{"ConstantOfShape", []*Tensor{list(4, 3)}, [][]int64{{4, 3}}, [][]int64{{2, 3}}},
	} {
		eval := func(shapes [][]int64) error {
			var out []*Tensor
			for _, s := range shapes {
				out = append(out, &Tensor{Type: graph.Float32, Shape: s})
			}
			return Eval(&graph.Node{Op: c.op}, 17, c.in, out)
		}
		if err := eval(c.right); err != nil {
			t.Errorf("%s: %v", c.op, err)
		}
		if eval(c.wrong) == nil {
			t.Errorf("%s: was computed with the shapes %v, expected an error", c.op, c.wrong)
		}
	}
}

// TestReadBool: a byte of a bool that is neither 0 nor 1 is refused.
func TestReadBool(t *testing.T) {
	for raw, want := range map[string]bool{"\x01\x00": true, "\x01\x02": false} {
		d := &graph.Data{Type: graph.Bool, Dims: []int64{2}, Raw: []byte(raw), Bytes: 2}
		if _, err := NewFiles(nil).Read(d); (err == nil) != want {
			t.Errorf("% x: error %v", raw, err)
		}
	}
}

// TestCast: conversions whose result the standards determine.
func TestCast(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to graph.DType
		in, want []byte
	}{
		{"int64 to int32 keeps the low bits", graph.Int64, graph.Int32, []byte{1, 0, 0, 128, 1, 0, 0, 0}, []byte{1, 0, 0, 128}},
		{"int32 to int64 keeps the sign", graph.Int32, graph.Int64, []byte{254, 255, 255, 255}, []byte{254, 255, 255, 255, 255, 255, 255, 255}},
		{"int32 to bool", graph.Int32, graph.Bool, []byte{0, 1, 0, 0}, []byte{1}},
		{"int32 to float32, rounded to even", graph.Int32, graph.Float32, []byte{1, 0, 0, 1}, floats(1 << 24)},
		{"float32 to int64 towards 0", graph.Float32, graph.Int64, floats(-1.75), []byte{255, 255, 255, 255, 255, 255, 255, 255}},
		{"float16 to float32", graph.Float16, graph.Float32, []byte{1, 0x80}, floats(-0x1p-24)},
		{"float64 to float32, rounded to even", graph.Float64, graph.Float32, []byte{0, 0, 0, 0x10, 0, 0, 0xf0, 0x3f}, floats(1)},
		{"float32 to bool", graph.Float32, graph.Bool, floats(0.25), []byte{1}},
	} {
		in, out := &Tensor{Type: c.from, Shape: []int64{}, Raw: c.in}, &Tensor{Type: c.to, Shape: []int64{}}
		if err := Eval(&graph.Node{Op: "Cast"}, 21, []*Tensor{in}, []*Tensor{out}); err != nil || !bytes.Equal(out.Raw, c.want) {
			t.Errorf("%s: % x, error %v, expected % x", c.name, out.Raw, err, c.want)
		}
	}
}
