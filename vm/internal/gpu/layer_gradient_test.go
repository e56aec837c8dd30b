package gpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// TestLayerGradient: the gradient of a LayerNormalization in few kernels has the bits of the
// nodes, with late sums or without, over its operands or beside them.
func TestLayerGradient(t *testing.T) {
	b := newBench(t)
	for _, size := range [][2]int{{8, 64}, {9, 100}, {142, 184}, {300, 768}, {40, 2052}, {64, 1024}} {
		rows, columns := size[0], size[1]
		c := &chain{r: rand.New(rand.NewPCG(uint64(rows), uint64(columns)))}
		x, d := c.input(graph.Float32, rows, columns), c.input(graph.Float32, rows, columns)
		scale, inverse := c.input(graph.Float32, columns), c.input(graph.Float32, rows, 1)
		node := func(op string, in ...*form.Tensor) *form.Tensor { return c.node(op, graph.Float32, in...) }
		reduce := func(op string, axis int64, x *form.Tensor) *form.Tensor {
			shape := []int{rows, columns}
			shape[axis] = 1
			y := blank(graph.Float32, shape...)
			n := &graph.Node{Op: op, Attrs: attrs(ints("axes", axis))}
			c.nodes = append(c.nodes, &form.Call{Node: n, Version: 11, In: []*form.Tensor{x}, Out: []*form.Tensor{y}, Runtime: alone{}})
			c.tensors = append(c.tensors, y)
			return y
		}
		sums, products := reduce("ReduceSum", 0, d), reduce("ReduceSum", 0, node("Mul", d, x))
		scaled := node("Mul", d, scale)
		shift, slope := reduce("ReduceMean", 1, scaled), reduce("ReduceMean", 1, node("Mul", scaled, x))
		out := node("Mul", inverse, node("Sub", node("Sub", scaled, shift), node("Mul", x, slope)))
		for _, y := range c.tensors {
			b.upload(y)
		}
		var nodes []form.Run
		for _, n := range c.nodes {
			run, err := b.kernels.Prepare(n)
			b.must(err)
			nodes = append(nodes, run)
		}
		plain := NormGradient{X: x, D: d, Scale: scale, Inverse: inverse, Out: out, Sums: sums, Products: products}
		scaledOnly := plain
		scaledOnly.Scaled = scaled
		late := plain
		late.Late = true
		bytes, err := late.TableBytes()
		b.must(err)
		block, err := b.device.Take(bytes, "a table")
		b.must(err)
		b.blocks = append(b.blocks, block)
		late.Table = block.At
		type trial struct {
			name string
			runs NormGradientRuns
			over *form.Tensor
		}
		var list []trial
		home := b.at[out]
		for _, g := range []struct {
			name string
			NormGradient
			over *form.Tensor
		}{{"beside", plain, nil}, {"scaled", scaledOnly, nil}, {"late", late, nil}, {"over x", plain, x}, {"over d", plain, d}, {"over what is scaled", scaledOnly, scaled}} {
			if g.over != nil {
				b.at[out] = b.at[g.over]
			}
			runs, err := b.kernels.PrepareNormGradient(&g.NormGradient, Workspace{})
			b.must(err)
			list = append(list, trial{g.name, runs, g.over})
			b.at[out] = home
		}
		b.must(b.kernels.Ready(func(int64) error { return nil }))
		for _, run := range nodes {
			b.must(run(nil))
		}
		results := []*form.Tensor{out, sums, products}
		var want [][]byte
		for _, y := range results {
			want = append(want, b.download(y))
		}
		before := b.download(scaled)
		for _, w := range list {
			for _, y := range results {
				b.must(driver.Fill8(b.at[y], 0xa5, int64(y.Bytes()), b.kernels.Queue.Stream))
			}
			for _, run := range []form.Run{w.runs.Measure, w.runs.Sums, w.runs.Products, w.runs.Write} {
				if run != nil {
					b.must(run(nil))
				}
			}
			for i, y := range results {
				what := *y
				b.at[&what] = b.at[y]
				if i == 0 && w.over != nil {
					b.at[&what] = b.at[w.over]
				}
				b.sameBits(fmt.Sprintf("%d rows of %d, %s, result %d", rows, columns, w.name, i), &what, want[i])
			}
			if w.over != nil { // what it has overwritten
				copy(content(scaled), before)
				b.must(driver.UploadNow(b.at[w.over], w.over.At, int64(w.over.Bytes())))
			}
		}
	}
}
