package gpu

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// bytesOf downloads a tensor.
func (b *bench) bytesOf(x *form.Tensor) []byte {
	b.must(b.kernels.Queue.Stream.Synchronize())
	b.must(driver.DownloadNow(x.At, b.at[x], int64(x.Bytes())))
	return bytes.Clone(unsafe.Slice((*byte)(x.At), x.Bytes()))
}

// TestOverInputs: what ops.Op.Inplace allows gives the same bits where an output lies over
// the input of its place, and the same bits again in another run.
func TestOverInputs(t *testing.T) {
	over := map[string][][2]int{ // output, input
		"Softmax": {{0, 0}}, "LogSoftmax": {{0, 0}}, "Hardmax": {{0, 0}}, "CumSum": {{0, 0}},
		"LayerNormalization": {{0, 0}}, "RMSNormalization": {{0, 0}}, "InstanceNormalization": {{0, 0}},
		"GroupNormalization": {{0, 0}}, "MeanVarianceNormalization": {{0, 0}}, "LpNormalization": {{0, 0}},
		"BatchNormalization":                             {{0, 0}, {1, 3}, {2, 4}},
		"com.microsoft.SkipLayerNormalization":           {{0, 1}, {3, 0}},
		"com.microsoft.SkipSimplifiedLayerNormalization": {{0, 1}, {3, 0}},
		"SimplifiedLayerNormalization":                   {{0, 0}},
		"RotaryEmbedding":                                {{0, 0}},
		"com.microsoft.RotaryEmbedding":                  {{0, 0}},
		"TensorScatter":                                  {{0, 0}},
	}
	b := newBench(t)
	type placed struct {
		op           string
		apart, fresh *prepared
		run          form.Run
		outs         []*form.Tensor
	}
	var all []placed
	list := slices.Concat(rowCases, attentionCases, gatherCases)
	for i := range list {
		c := &list[i]
		if over[c.op] == nil || c.types != nil && !slices.Contains(c.types, graph.Float32) {
			continue
		}
		p := placed{op: c.op, apart: b.prepare(c, graph.Float32), fresh: b.prepare(c, graph.Float32)}
		n := *p.fresh.n
		n.Out = slices.Clone(n.Out)
		for _, o := range over[c.op] {
			if o[0] < len(n.Out) && slices.Equal(n.Out[o[0]].Shape, n.In[o[1]].Shape) {
				x := *n.Out[o[0]]
				n.Out[o[0]] = &x
				b.at[&x] = b.at[n.In[o[1]]]
			}
		}
		var err error
		p.run, err = b.kernels.Prepare(&n)
		b.must(err)
		p.outs = n.Out
		all = append(all, p)
	}
	b.must(b.kernels.Ready(func(int64) error { return nil }))
	for _, p := range all {
		for range 2 {
			b.must(p.apart.run((*work.Pool)(nil)))
		}
		b.must(p.run((*work.Pool)(nil)))
		for o, y := range p.outs {
			if !bytes.Equal(b.bytesOf(y), b.bytesOf(p.apart.n.Out[o])) {
				t.Errorf("%s of %v: output %d over its input differs", p.op, p.apart.n.In[0].Shape, o)
			}
		}
	}
}

// TestWrongLabels: a label that is no class, not even from the end, is reported, and
// nothing is read for it.
func TestWrongLabels(t *testing.T) {
	b := newBench(t)
	b.must(b.kernels.WatchFaults())
	t.Cleanup(func() { b.must(b.kernels.Close()) })
	c := &nodeCase{op: "SoftmaxCrossEntropyLoss", in: args(noise(4, 3), list(0, 2, 1, 0))}
	var runs []form.Run
	wrong := []int64{3, -1}
	for _, label := range wrong {
		n := *b.prepare(c, graph.Float32).n
		n.In = slices.Clone(n.In)
		n.In[1] = b.tensor(list(0, label, 1, -9), graph.Int64, false, false)
		run, err := b.kernels.Prepare(&n)
		b.must(err)
		runs = append(runs, run)
	}
	b.must(b.kernels.Ready(func(int64) error { return nil }))
	for i, run := range runs {
		b.must(b.kernels.ClearFaults())
		b.must(run((*work.Pool)(nil)))
		node, err := b.kernels.Fault()
		if node == nil || !strings.HasSuffix(fmt.Sprint(err), "element 1 of the indices, of shape [4]: expected one in [0, 3)") {
			t.Errorf("label %d: got fault %v of %v", wrong[i], err, node)
		}
	}
}

// TestUnalignedRows: the bits of rows do not depend on where they lie.
func TestUnalignedRows(t *testing.T) {
	b := newBench(t)
	p := b.prepare(&nodeCase{op: "LayerNormalization", in: args(noise(9, 132), noise(132))}, graph.Float32)
	n := *p.n
	n.In, n.Out = slices.Clone(n.In), slices.Clone(n.Out)
	for _, list := range [][]*form.Tensor{n.In[:1], n.Out} {
		x := *list[0]
		b.at[&x] = b.at[b.tensor(noise(10, 132), graph.Float32, false, false)] + 4
		b.must(driver.UploadNow(b.at[&x], x.At, int64(x.Bytes())))
		list[0] = &x
	}
	run, err := b.kernels.Prepare(&n)
	b.must(err)
	b.must(b.kernels.Ready(func(int64) error { return nil }))
	b.must(p.run((*work.Pool)(nil)))
	b.must(run((*work.Pool)(nil)))
	want := b.bytesOf(p.n.Out[0]) // before the next download, which has the same place here
	if got := b.bytesOf(n.Out[0]); !bytes.Equal(got, want) {
		t.Error("rows at an odd address differ")
	}
}
