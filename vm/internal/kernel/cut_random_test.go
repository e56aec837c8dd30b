package kernel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestCutsOfRandomNodes: slices of products, convolutions, pools and norms of random sizes have
// the bits of the whole, whatever kernels are chosen for their sizes.
func TestCutsOfRandomNodes(t *testing.T) {
	d := randomNodes{rand.New(rand.NewPCG(7, 1))}
	const number = 80
	copies := 0
	for range number {
		k := d.draw()
		for _, constant := range []bool{false, true} {
			for _, elem := range []graph.DType{graph.Float32, graph.Float16} {
				cuts, sums, err := k.cutNode(elem, constant).check()
				if errors.Is(err, errNoKernel) { // the window is larger than the image
					continue
				}
				if copies += cuts + sums; err != nil {
					t.Errorf("%v, constants %v: %s: %v", elem, constant, d.text(&k), err)
				}
			}
		}
	}
	if copies < 50*number {
		t.Errorf("%d copies of %d nodes: expected more", copies, number)
	}
}

// randomNodes draws nodes.
type randomNodes struct{ *rand.Rand }

func (d randomNodes) one(list ...int) int { return list[d.IntN(len(list))] }

// sizes are lengths of spatial axes.
func (d randomNodes) sizes(axes, least, most int) (list []int) {
	for range axes {
		list = append(list, least+d.IntN(most-least+1))
	}
	return list
}

func (d randomNodes) draw() nodeCase {
	switch d.IntN(12) {
	case 0, 1, 2:
		return d.conv(d.one(1, 1, 2, 3, 8), d.one(1, 1, 2, 4, 9, 17))
	case 3:
		return d.conv(1, 1)
	case 4, 5:
		return d.convTranspose()
	case 6:
		return d.pool()
	case 7, 8:
		return d.product()
	case 9:
		return d.norm()
	case 10:
		axes := [][]int64{{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}}[d.IntN(6)]
		op := []string{"ReduceSum", "ReduceMean", "ReduceL2", "ReduceMax", "ReduceLogSumExp", "ReduceSumSquare"}[d.IntN(6)]
		return nodeCase{op: op, version: 18, in: args(positive(d.one(1, 2, 5, 40), d.one(1, 4, 33, 300), d.one(1, 3, 17, 200)), integerList(axes...))}
	}
	n, h, w := d.one(1, 2, 4), d.one(1, 3, 5), d.one(1, 2, 3)
	rows, columns := 3+d.IntN(20), 3+d.IntN(20)
	x, g := noise(n, d.one(1, 3, 5, 16), rows+h, columns+w), noise(n, d.one(1, 2, 8, 20), rows+1, columns+1)
	return weightGrad([]int64{int64(h), int64(w)}, 1, []int64{1, 1}, []int64{1, 1}, []int64{0, 0, 0, 0}, x, g)
}

// window draws the attributes of a window over an image.
func (d randomNodes) window(kernel []int) []*graph.Attr {
	var strides, dilations, pads []int64
	for range kernel {
		strides, dilations = append(strides, int64(d.one(1, 1, 1, 2, 3))), append(dilations, int64(d.one(1, 1, 1, 2)))
	}
	for i := range 2 * len(kernel) {
		pads = append(pads, int64(d.IntN(min(kernel[i%len(kernel)], 3))))
	}
	return attrs(ints("strides", strides...), ints("dilations", dilations...), ints("pads", pads...))
}

// conv draws a convolution of that many channels a group, and results of each.
func (d randomNodes) conv(from, to int) nodeCase {
	axes, groups := d.one(1, 2), d.one(1, 1, 1, 2, 3, 8, 9)
	image, kernel := d.sizes(axes, 5, d.one(12, 30, 70)), d.sizes(axes, 1, d.one(3, 5, 7))
	in := args(noise(append([]int{d.one(1, 2, 4), groups * from}, image...)...), noise(append([]int{groups * to, from}, kernel...)...))
	if d.IntN(2) == 0 {
		in = append(in, noise(groups*to))
	}
	return nodeCase{op: "Conv", version: 22, attrs: append(d.window(kernel), whole1("group", int64(groups))), in: in}
}

func (d randomNodes) convTranspose() nodeCase {
	axes, groups, from, to := d.one(1, 2), d.one(1, 1, 2, 5), d.one(1, 2, 3, 8), d.one(1, 2, 4, 5, 9)
	image, kernel := d.sizes(axes, 3, d.one(8, 20)), d.sizes(axes, 1, d.one(3, 5))
	var strides []int64
	for _, n := range kernel {
		strides = append(strides, int64(d.one(1, n)))
	}
	in := args(noise(append([]int{d.one(1, 2, 4), groups * from}, image...)...), noise(append([]int{groups * from, to}, kernel...)...))
	if d.IntN(2) == 0 {
		in = append(in, noise(groups*to))
	}
	return nodeCase{op: "ConvTranspose", version: 22, attrs: attrs(ints("strides", strides...), whole1("group", int64(groups))), in: in}
}

func (d randomNodes) pool() nodeCase {
	axes := d.one(1, 2)
	kernel := d.sizes(axes, 1, d.one(3, 5))
	var lengths []int64
	for _, n := range kernel {
		lengths = append(lengths, int64(n))
	}
	list := append(d.window(kernel), ints("kernel_shape", lengths...))
	op := []string{"AveragePool", "MaxPool", "LpPool"}[d.IntN(3)]
	if op == "AveragePool" {
		list = append(list, whole1("count_include_pad", int64(d.IntN(2))))
	}
	return nodeCase{op: op, version: 22, attrs: list, in: args(noise(append([]int{d.one(1, 2, 4), d.one(1, 3, 8, 17)}, d.sizes(axes, 5, d.one(12, 30, 90))...)...))}
}

func (d randomNodes) product() nodeCase {
	m, k, n := d.one(1, 2, 7, 30, 65), d.one(1, 3, 20, 300, 600), d.one(1, 2, 9, 33, 130)
	if d.IntN(2) == 0 {
		return nodeCase{op: "MatMul", in: args(noise(d.one(1, 2), m, k), noise(d.one(1, 2), k, n))}
	}
	a, b := noise(m, k), noise(k, n)
	transA, transB := d.IntN(2), d.IntN(2)
	if transA == 1 {
		a = noise(k, m)
	}
	if transB == 1 {
		b = noise(n, k)
	}
	in := args(a, b)
	switch d.IntN(6) {
	case 0:
		in = append(in, noise(n))
	case 1:
		in = append(in, noise(m, n))
	case 2:
		in = append(in, noise(m, 1))
	case 3:
		in = append(in, noise(1, n))
	case 4:
		in = append(in, noise(1))
	}
	return nodeCase{op: "Gemm", attrs: attrs(whole1("transA", int64(transA)), whole1("transB", int64(transB)), float1("alpha", []float32{1, 0.3}[d.IntN(2)]), float1("beta", []float32{1, 0.7}[d.IntN(2)])), in: in}
}

func (d randomNodes) norm() nodeCase {
	channels := d.one(1, 3, 16, 40)
	x := noise(append([]int{d.one(1, 2, 4), channels}, d.sizes(d.one(1, 2), 2, 40)...)...)
	switch d.IntN(4) {
	case 0:
		return nodeCase{op: "InstanceNormalization", version: 22, in: args(x, noise(channels), noise(channels))}
	case 1:
		axis := 1 + d.IntN(2)
		return nodeCase{op: "LayerNormalization", version: 17, attrs: attrs(whole1("axis", int64(axis))), in: args(x, noise(x.Shape[axis:]...))}
	case 2:
		return nodeCase{op: "Softmax", version: 13, attrs: attrs(whole1("axis", int64(d.IntN(3)))), in: args(x)}
	}
	return nodeCase{op: "GlobalAveragePool", in: args(x)}
}

// text describes a node.
func (d randomNodes) text(k *nodeCase) string {
	text := k.op
	for _, a := range k.attrs {
		text += fmt.Sprintf(" %s=%v,%d,%g", a.Name, a.Ints, a.Int, a.Float)
	}
	for _, x := range k.in {
		text += fmt.Sprint(" ", x.Shape)
	}
	return text
}
