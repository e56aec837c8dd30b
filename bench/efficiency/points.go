package main

import (
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// point is one operator with lengths; copies of it have weights of their own, so that
// these come from memory, as in a network.
type point struct {
	name   string
	copies int
	add    func(b *graph.Builder, name string) graph.TensorID // adds a node of that name
}

// coldBytes is the size of weights that no cache holds.
const coldBytes = 48 << 20

// cold returns how many copies of weights of that many bytes no cache holds.
func cold(bytes int) int { return min(max(coldBytes/bytes, 2), 16) }

// ramp returns n numbers around 0.
func ramp(n int) []float32 {
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(math.Sin(float64(i))) / 4
	}
	return list
}

// source makes a tensor that is no constant: it follows from the input.
type source struct {
	inputs map[string]graph.TensorID
}

func (s *source) tensor(b *graph.Builder, shape ...int) graph.TensorID {
	key := fmt.Sprint(shape)
	t, known := s.inputs[key]
	if !known {
		dims := make([]graph.Dim, len(shape))
		for i, n := range shape {
			dims[i] = graph.Dim(n)
		}
		t = b.Input(fmt.Sprintf("x%d", len(s.inputs)), graph.TensorOf(graph.Float32, dims...))
		s.inputs[key] = t
	}
	return t
}

func weights(b *graph.Builder, shape ...int64) graph.TensorID {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return b.Floats("w", shape, ramp(int(n)))
}

// points are the operators that are measured, from narrow to wide.
func points() (list []point) {
	node := func(b *graph.Builder, n *graph.Node) graph.TensorID { return b.Add(n, n.Name)[0] }
	ints := func(name string, v ...int64) *graph.Attr {
		return &graph.Attr{Name: name, Type: graph.AttrInts, Ints: v}
	}
	new := func() *source { return &source{map[string]graph.TensorID{}} }

	product := func(m, n, k int) {
		s := new()
		list = append(list, point{fmt.Sprintf("product %d %d %d", m, n, k), cold(4 * n * k), func(b *graph.Builder, name string) graph.TensorID {
			return node(b, &graph.Node{Name: name, Op: "MatMul", Inputs: []graph.TensorID{s.tensor(b, m, k), weights(b, int64(k), int64(n))}})
		}})
	}
	for _, m := range []int{1, 2, 4, 8, 14, 28, 49, 98, 197} {
		product(m, 768, 768)
		product(m, 3072, 768)
	}
	for _, n := range []int{1, 8, 16, 32, 64, 192} {
		product(197, n, 768)
	}

	heads := func(h, m, n, k int) {
		s := new()
		list = append(list, point{fmt.Sprintf("heads %d %d %d %d", h, m, n, k), 3, func(b *graph.Builder, name string) graph.TensorID {
			return node(b, &graph.Node{Name: name, Op: "MatMul", Inputs: []graph.TensorID{s.tensor(b, h, m, k), s.tensor(b, h, k, n)}})
		}})
	}
	for _, m := range []int{1, 4, 14, 28, 98, 197} {
		heads(12, m, 197, 64)
		heads(12, m, 64, 197)
	}
	heads(1, 197, 197, 64)

	conv := func(in, out, group, kernel, stride, rows, columns int) {
		s := new()
		list = append(list, point{fmt.Sprintf("conv %d %d %d %d %d %d %d", in, out, group, kernel, stride, rows, columns), 4, func(b *graph.Builder, name string) graph.TensorID {
			p := int64(kernel / 2)
			return node(b, &graph.Node{
				Name: name, Op: "Conv",
				Inputs: []graph.TensorID{s.tensor(b, 1, in, (rows-1)*stride+kernel, columns*stride), weights(b, int64(out), int64(in/group), int64(kernel), int64(kernel))},
				Attrs:  []*graph.Attr{ints("pads", 0, p, 0, p), ints("strides", int64(stride), int64(stride)), {Name: "group", Type: graph.AttrInt, Int: int64(group)}},
			})
		}})
	}
	for _, rows := range []int{1, 2, 4, 8, 28} {
		conv(64, 64, 1, 3, 1, rows, 56)
		conv(128, 128, 1, 3, 1, rows, 28)
		conv(16, 96, 1, 1, 1, rows, 112)
		conv(96, 24, 1, 1, 1, rows, 56)
		conv(256, 64, 1, 1, 1, rows, 56)
		conv(3, 32, 1, 3, 2, rows, 112)
		conv(32, 32, 32, 3, 1, rows, 112)
		conv(96, 96, 96, 3, 2, rows, 56)
		conv(144, 144, 144, 3, 1, rows, 56)
	}

	norm := func(channels, pixels int) {
		s := new()
		list = append(list, point{fmt.Sprintf("norm %d %d", channels, pixels), 4, func(b *graph.Builder, name string) graph.TensorID {
			c := int64(channels)
			return node(b, &graph.Node{Name: name, Op: "BatchNormalization", Inputs: []graph.TensorID{
				s.tensor(b, 1, channels, pixels), weights(b, c), weights(b, c), weights(b, c), b.Floats("v", []int64{c}, ones(channels)),
			}})
		}})
	}
	rows := func(outer, inner, of int) { // rows along an axis behind another
		s := new()
		list = append(list, point{fmt.Sprintf("slice %d %d %d", outer, inner, of), 4, func(b *graph.Builder, name string) graph.TensorID {
			return node(b, &graph.Node{Name: name, Op: "Slice", Inputs: []graph.TensorID{
				s.tensor(b, outer, of), b.Ints("lo", []int64{1}, []int64{16}), b.Ints("hi", []int64{1}, []int64{int64(16 + inner)}), b.Ints("axis", []int64{1}, []int64{1}),
			}})
		}})
	}
	each := func(op string, shape ...int) {
		s := new()
		list = append(list, point{fmt.Sprintf("each %s %d", op, shape), 4, func(b *graph.Builder, name string) graph.TensorID {
			x := s.tensor(b, shape...)
			in := []graph.TensorID{x}
			if op == "Add" {
				in = append(in, x)
			}
			return node(b, &graph.Node{Name: name, Op: op, Inputs: in})
		}})
	}
	for _, pixels := range []int{112, 336, 1120, 6272} {
		norm(32, pixels)
		norm(96, pixels)
	}
	for _, inner := range []int{112, 448, 1792} {
		rows(96, inner, 8192)
		rows(1, 96*inner, 1<<20)
	}
	for _, n := range []int{1 << 10, 1 << 14, 1 << 18, 1 << 21} {
		for _, op := range []string{"Add", "Relu", "Sqrt", "Exp", "Tanh", "Sigmoid", "Erf", "Gelu", "Mish", "Softplus", "Elu", "Softmax", "LogSoftmax", "Log"} {
			each(op, n/64, 64)
		}
	}
	return list
}

func ones(n int) []float32 {
	list := make([]float32, n)
	for i := range list {
		list[i] = 1
	}
	return list
}
