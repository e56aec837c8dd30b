package gpu

import (
	"bytes"
	"fmt"
	"testing"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// exactCases are nodes whose device kernels give the bits of the host's kernels.
var exactCases []nodeCase

// TestSameBytesAsHost: the outputs of device kernels have the bits of the host's.
func TestSameBytesAsHost(t *testing.T) {
	b := newBench(t)
	t.Cleanup(func() { b.must(b.kernels.Close()) })
	var list []*prepared
	for i := range exactCases {
		c := &exactCases[i]
		types := c.types
		if types == nil {
			types = []graph.DType{graph.Float32}
		}
		for _, d := range types {
			if p := b.prepare(c, d); p != nil {
				list = append(list, p)
			}
		}
	}
	b.must(b.kernels.Ready(func(int64) error { return nil }))
	b.must(b.kernels.Reseed())
	for i, p := range list {
		t.Run(fmt.Sprintf("%03d-%s-%v", i, p.c.op, p.d), func(t *testing.T) {
			b.t = t
			b.must(b.device.Enter())
			defer b.device.Leave()
			host, err := b.onHost(p.n)
			b.must(err)
			b.must(p.run(nil))
			b.must(b.kernels.Queue.Stream.Synchronize())
			for o, y := range p.n.Out {
				if y.Bytes() == 0 {
					continue
				}
				b.must(driver.DownloadNow(y.At, b.at[y], int64(y.Bytes())))
				got, want := content(y), content(host[o])
				if bytes.Equal(got, want) {
					continue
				}
				width := y.Bytes() / y.Len()
				at := 0
				for got[at] == want[at] {
					at++
				}
				t.Errorf("output %d of shape %v, element %d: got %x, want %x", o, y.Shape, at/width, got[at/width*width:][:width], want[at/width*width:][:width])
			}
		})
	}
	b.t = t
}

// put sets element i of an int64 tensor on the device.
func (b *bench) put(t *form.Tensor, i int, v int64) {
	b.t.Helper()
	b.must(driver.UploadNow(b.at[t]+driver.Ptr(8*i), unsafe.Pointer(&v), 8))
}
