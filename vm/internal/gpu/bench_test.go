package gpu

import (
	"fmt"
	"os"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// timed is work on a device whose time is measured.
type timed struct {
	name  string
	bytes int // that it must read and write at least
	run   form.Run
}

// BenchmarkMemoryBound measures nodes that move more than they compute, at the shapes that
// they have in training steps of ResNet-50 and BERT: on a GPU (ONNXMEM_TEST_GPU=1), by its
// clock, in a recorded graph, as steps run. GB/s are useful ones: of each tensor once.
// Small tensors stay in the cache.
func BenchmarkMemoryBound(b *testing.B) {
	if os.Getenv("ONNXMEM_TEST_GPU") == "" {
		b.Skip("the fake driver's times say nothing (ONNXMEM_TEST_GPU=1 asks for the GPU)")
	}
	d := newBench(b)
	var list []timed
	for _, batch := range []int{8, 32} {
		for _, s := range [][3]int{{64, 112, 112}, {64, 56, 56}, {256, 56, 56}, {128, 28, 28}, {512, 28, 28}, {256, 14, 14}, {1024, 14, 14}, {512, 7, 7}, {2048, 7, 7}} {
			list = append(list, d.normCases(batch, s[0], s[1], s[2])...)
		}
		for _, s := range [][2]int{{batch * 128, 768}, {batch * 128, 3072}} {
			list = append(list, d.rowCases(s[0], s[1])...)
		}
		scores := d.empty(batch, 12, 128, 128)
		list = append(list,
			d.node("Softmax", nil, 2, scores, d.empty(scores.Shape...)),
			d.node("Transpose", attrs(ints("perm", 0, 2, 1, 3)), 2, d.empty(batch, 128, 12, 64), d.empty(batch, 12, 128, 64)),
			d.node("Transpose", attrs(ints("perm", 0, 2, 3, 1)), 2, d.empty(batch, 128, 12, 64), d.empty(batch, 12, 64, 128)),
		)
	}
	for _, batch := range []int{1, 8} {
		for _, keys := range []int{512, 4096} {
			list = append(list, d.token(batch, 32, 8, keys, 128), d.token(batch, 16, 16, keys, 64))
		}
	}
	for _, n := range []int{64, 2048, 768 * 768, 3072 * 768, 2048 * 512 * 9} {
		list = append(list, d.update(n))
	}
	d.must(d.kernels.Ready(func(int64) error { return nil }))
	for _, w := range list {
		b.Run(w.name, func(b *testing.B) { d.measure(b, &w) })
	}
	d.t = b
}

// measure takes the time of one run among many in a recorded graph.
func (b *bench) measure(t *testing.B, w *timed) {
	const runs = 20
	b.t = t
	b.must(b.device.Enter()) // a benchmark has a goroutine of its own
	defer b.device.Leave()
	stream := b.kernels.Queue.Stream
	b.must(w.run(nil))
	b.must(stream.BeginCapture())
	for range runs {
		b.must(w.run(nil))
	}
	recorded, err := stream.EndCapture()
	b.must(err)
	exec, err := recorded.Instantiate()
	b.must(err)
	b.must(recorded.Destroy())
	var events [2]driver.Event
	for i := range events {
		events[i], err = driver.NewEvent(true)
		b.must(err)
	}
	b.must(exec.Launch(stream))
	b.must(events[0].Record(stream))
	for range t.N {
		b.must(exec.Launch(stream))
	}
	b.must(events[1].Record(stream))
	b.must(stream.Synchronize())
	ms, err := driver.Elapsed(events[0], events[1])
	b.must(err)
	for _, e := range events {
		b.must(e.Destroy())
	}
	b.must(exec.Destroy())
	seconds := float64(ms) / 1e3 / float64(t.N) / runs
	t.ReportMetric(0, "ns/op")
	t.ReportMetric(seconds*1e6, "µs")
	t.ReportMetric(float64(w.bytes)/seconds/1e9, "GB/s")
}

// empty returns a tensor of floats on the device, with zeros.
func (b *bench) empty(shape ...int) *form.Tensor { return b.emptyOf(graph.Float32, shape...) }

func (b *bench) emptyOf(d graph.DType, shape ...int) *form.Tensor {
	x := &form.Tensor{Type: d, Shape: shape}
	block, err := b.device.Take(int64(x.Bytes()), "a tensor")
	b.must(err)
	b.must(driver.Fill8(block.At, 0, int64(x.Bytes()), b.kernels.Queue.Stream))
	b.blocks, b.at[x] = append(b.blocks, block), block.At
	return x
}

// fixed returns a constant of floats.
func (b *bench) fixed(list ...float64) *form.Tensor {
	return b.tensor(&reference.Tensor{Type: graph.Float32, Shape: []int{len(list)}, F: list}, graph.Float32, true, false)
}

// node prepares a node that moves its largest tensor some times. The last tensor is the
// output, unless outputs follow it.
func (b *bench) node(op string, attributes []*graph.Attr, times int, tensors ...*form.Tensor) timed {
	last := len(tensors) - 1
	return b.invocation(&form.Call{Node: &graph.Node{Op: op, Attrs: attributes}, Version: 18, Runtime: alone{}, In: tensors[:last], Out: tensors[last:]}, times)
}

func (b *bench) invocation(c *form.Call, times int) timed {
	run, err := b.kernels.Prepare(c)
	b.must(err)
	return timed{fmt.Sprintf("%s/%v", c.Node.Op, c.In[0].Shape), times * c.In[0].Bytes(), run}
}

// normCases are what a BatchNormalization and its gradient do.
func (b *bench) normCases(batch, channels, height, width int) []timed {
	x, d, y := b.empty(batch, channels, height, width), b.empty(batch, channels, height, width), b.empty(batch, channels, height, width)
	var of []*form.Tensor
	for range 7 {
		of = append(of, b.empty(channels))
	}
	norm := &form.Call{
		Node: &graph.Node{Op: "BatchNormalization", Attrs: attrs(whole("training_mode", 1))}, Version: 18, Runtime: alone{},
		In: append([]*form.Tensor{x}, of[:4]...), Out: []*form.Tensor{y, of[2], of[3]},
	}
	for range 3 {
		norm.Node.Outputs = append(norm.Node.Outputs, 0)
	}
	for range norm.In {
		norm.Node.Inputs = append(norm.Node.Inputs, 0)
	}
	runs, err := b.kernels.PrepareNormGradient(&NormGradient{X: x, D: d, Scale: of[0], Out: d, Sums: of[4], Products: of[5], Epsilon: 1e-5}, Workspace{})
	b.must(err)
	gradient := timed{fmt.Sprintf("BatchNormalization.grad/%v", x.Shape), 3 * x.Bytes(), func(p *work.Pool) error {
		if err := runs.Measure(p); err != nil {
			return err
		}
		return runs.Write(p)
	}}
	return []timed{b.invocation(norm, 2), gradient, b.node("Relu", nil, 2, x, y), b.reduction("ReduceSum", x, 0, 2, 3)}
}

// reduction prepares a reduction along axes.
func (b *bench) reduction(op string, x *form.Tensor, axes ...int64) timed {
	shape := append([]int{}, x.Shape...)
	for _, a := range axes {
		shape[a] = 1
	}
	return b.invocation(&form.Call{
		Node: &graph.Node{Op: op, Attrs: attrs(ints("axes", axes...))}, Version: 11, Runtime: alone{}, In: []*form.Tensor{x}, Out: []*form.Tensor{b.empty(shape...)},
	}, 1)
}

// rowCases are what BERT does to rows.
func (b *bench) rowCases(rows, columns int) []timed {
	x, y := b.empty(rows, columns), b.empty(rows, columns)
	sums := b.reduction("ReduceSum", x, 0)
	sums.name += "-columns"
	runs, err := b.kernels.PrepareNormGradient(&NormGradient{
		X: x, D: y, Scale: b.empty(columns), Inverse: b.empty(rows, 1), Out: x, Sums: b.empty(columns), Products: b.empty(columns),
	}, Workspace{})
	b.must(err)
	gradient := timed{fmt.Sprintf("LayerNormalization.grad/%v", x.Shape), 3 * x.Bytes(), func(p *work.Pool) error {
		if err := runs.Measure(p); err != nil {
			return err
		}
		return runs.Write(p)
	}}
	return []timed{
		b.node("LayerNormalization", nil, 2, x, b.empty(columns), b.empty(columns), y), gradient,
		b.reduction("ReduceMean", x, 1), sums, b.node("Gelu", nil, 2, x, y),
	}
}

// token is the attention of a decoder's step over so many keys, which lie in caches. Its bytes
// are those of the keys and values.
func (b *bench) token(batch, heads, shared, keys, size int) timed {
	whole32 := func(shape []int, v ...int64) *form.Tensor {
		return b.tensor(&reference.Tensor{Type: graph.Int32, Shape: shape, I: v}, graph.Int32, true, false)
	}
	last := make([]int64, batch)
	for i := range last {
		last[i] = int64(keys - 1)
	}
	past, kv := b.empty(batch, shared, keys, size), b.empty(batch, 1, shared*size)
	angles := b.empty(keys, size/2)
	run, err := b.kernels.Prepare(&form.Call{
		Node:    &graph.Node{Op: "GroupQueryAttention", Domain: "com.microsoft", Attrs: attrs(whole("num_heads", int64(heads)), whole("kv_num_heads", int64(shared)), whole("do_rotary", 1))},
		Version: 1, Runtime: alone{}, Out: []*form.Tensor{b.empty(batch, 1, heads*size), past, past},
		In: []*form.Tensor{b.empty(batch, 1, heads*size), kv, kv, past, past, whole32([]int{batch}, last...), whole32(nil, int64(keys)), angles, angles},
	})
	b.must(err)
	return timed{fmt.Sprintf("GroupQueryAttention/%v-%d", past.Shape, heads), 2 * past.Bytes(), run}
}

// update is that of a parameter of n elements by AdamW, as one group.
func (b *bench) update(n int) timed {
	w, m, v, g := b.empty(n), b.empty(n), b.empty(n), b.empty(n)
	c := &chain{}
	number := func(x float64) *form.Tensor { return b.fixed(x) }
	node := func(op string, in ...*form.Tensor) *form.Tensor { return c.node(op, graph.Float32, in...) }
	small := node("Mul", g, number(0.1))
	newM := node("Add", node("Mul", m, number(0.9)), small)
	newV := node("Add", node("Mul", v, number(0.999)), node("Mul", node("Mul", small, small), number(0.1)))
	root := node("Add", node("Div", node("Sqrt", newV), number(0.5)), number(1e-8))
	newW := node("Sub", node("Mul", w, number(0.99)), node("Mul", node("Div", newM, root), number(0.001)))
	b.at[newM], b.at[newV], b.at[newW] = b.at[m], b.at[v], b.at[w]
	run, err := b.kernels.PrepareGroup(c.nodes, []*form.Tensor{newM, newV, newW})
	b.must(err)
	return timed{fmt.Sprintf("AdamW/%d", n), 7 * 4 * n, run}
}
