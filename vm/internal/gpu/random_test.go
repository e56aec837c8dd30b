package gpu

import (
	"bytes"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// drawing is a runtime whose seed changes from step to step.
type drawing struct {
	alone
	step *uint64
}

func (d drawing) Seed() uint64 { return 0x123456789abcdef * *d.step }

// TestDropoutInTraining: the device drops the elements that the host drops, in each step
// others, and scales the rest alike.
func TestDropoutInTraining(t *testing.T) {
	b := newBench(t)
	t.Cleanup(func() { b.must(b.kernels.Close()) })
	pool := work.New(1)
	defer pool.Close()
	one := func(d graph.DType, v float64, constant bool) *form.Tensor {
		x := blank(d)
		b.must(form.Store(x, []float64{v}, []int64{int64(v)}))
		x.Const = constant
		return x
	}
	seed := attrs(whole("seed", -5))
	cases := []struct {
		doc      string
		d        graph.DType
		ratio    *form.Tensor
		training *form.Tensor
		attrs    []*graph.Attr
		same     bool // in each step
	}{
		{"known to train", graph.Float32, nil, one(graph.Bool, 1, true), nil, false},
		{"found to train", graph.Float16, one(graph.Float32, 0.3, false), one(graph.Bool, 1, false), nil, false},
		{"found not to train", graph.Float32, one(graph.Float32, 0.3, false), one(graph.Bool, 0, false), nil, true},
		{"a seed of its own", graph.Float64, one(graph.Float64, 0.9, true), one(graph.Bool, 1, true), seed, true},
		{"nothing is left", graph.Float32, one(graph.Float32, 1, true), one(graph.Bool, 1, true), nil, true},
		{"nothing is lost", graph.Float32, one(graph.Float32, 0, true), one(graph.Bool, 1, true), nil, true},
	}
	step := uint64(1)
	type pair struct {
		host        *kernel.Invocation
		device      *form.Call
		onHost, run form.Run
		last        []byte
	}
	var list []pair
	for i := range cases {
		c := &cases[i]
		x := blank(c.d, 3, 41)
		values := make([]float64, x.Len())
		for k := range values {
			values[k] = float64(k) + 1
		}
		b.must(form.Store(x, values, nil))
		make := func() *form.Call {
			return &form.Call{
				Node: &graph.Node{Op: "Dropout", Attrs: c.attrs}, Version: 13, In: []*form.Tensor{x, c.ratio, c.training},
				Out: []*form.Tensor{blank(c.d, 3, 41), blank(graph.Bool, 3, 41)}, Runtime: drawing{step: &step},
			}
		}
		p := pair{host: &kernel.Invocation{Call: *make()}, device: make()}
		var err error
		p.onHost, err = kernel.Lookup("", "Dropout").Prepare(p.host)
		b.must(err)
		for _, t := range slices.Concat(p.device.In, p.device.Out) {
			if t != nil {
				b.upload(t)
			}
		}
		if p.run, err = b.kernels.Prepare(p.device); err != nil {
			t.Fatalf("%s: %v", c.doc, err)
		}
		list = append(list, p)
	}
	b.must(b.kernels.Ready(func(int64) error { return nil }))
	for ; step <= 2; step++ {
		b.must(b.kernels.Queue.Stream.Synchronize())
		b.must(b.kernels.Reseed())
		for i := range list {
			p, c := &list[i], &cases[i]
			shared, each := blank(graph.Uint8, p.host.SharedBytes+64), blank(graph.Uint8, p.host.EachBytes+64)
			pool.SetScratch(shared.At, each.At, p.host.EachBytes)
			b.must(p.onHost(pool))
			b.must(p.run(nil))
			mask := b.bytesOf(p.device.Out[1])
			if got := b.bytesOf(p.device.Out[0]); !bytes.Equal(got, content(p.host.Out[0])) || !bytes.Equal(mask, content(p.host.Out[1])) {
				t.Errorf("%s, step %d: got %x, want %x", c.doc, step, mask, content(p.host.Out[1]))
			}
			if step == 2 && bytes.Equal(mask, p.last) != c.same {
				t.Errorf("%s: the second mask is the first: %v, expected %v", c.doc, !c.same, c.same)
			}
			p.last = mask
		}
	}
}
