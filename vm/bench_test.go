package vm_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// BenchmarkStep runs models of $ONNXMEM_ZOO, a folder with weights.bin, on one
// thread. best-ms is the fastest step: the machine may have other work.
// bench/kernels.py compares it with ONNX Runtime's time.
func BenchmarkStep(b *testing.B) {
	dir := os.Getenv("ONNXMEM_ZOO")
	if dir == "" {
		b.Skip("set ONNXMEM_ZOO to a folder of models and their weights")
	}
	for _, name := range []string{"resnet50-b1", "bert_base-b1", "mobilenet_v2-dyn", "vit_b_16-b1", "unet-b1"} {
		for _, pack := range []string{"yes", "no"} {
			b.Run("model="+name+"/pack="+pack, func(b *testing.B) {
				p, s := session(b, filepath.Join(dir, name+".onnx"), passes.Options{}, vm.Options{Workers: 1, NoPack: pack == "no"})
				in := noise(p)
				if _, err := s.Run(context.Background(), in); err != nil {
					b.Fatal(err)
				}
				best := fastest(b, s, in)
				m := s.Memory()
				b.ReportMetric(best.Seconds()*1e3, "best-ms")
				b.ReportMetric(float64(m.PackedBytes)/(1<<20), "packed-MiB")
				b.ReportMetric(float64(m.ScratchBytes)/(1<<20), "scratch-MiB")
			})
		}
	}
}

// BenchmarkConvTranspose runs transposed convolutions by steps of two, on one thread. The
// weights are a constant, as in inference, or an input, as in training.
func BenchmarkConvTranspose(b *testing.B) {
	for _, k := range []struct{ images, from, to, side, kernel, pad, more int64 }{
		{1, 256, 128, 28, 2, 0, 0},
		{1, 1024, 512, 14, 2, 0, 0},
		{2, 256, 128, 28, 3, 1, 1},
		{2, 512, 256, 7, 3, 1, 1},
		{2, 256, 128, 28, 1, 0, 1},
		{1, 64, 32, 64, 4, 1, 0},
		{1, 512, 256, 4, 4, 1, 0},
	} {
		for _, weights := range []string{"constant", "input"} {
			b.Run(fmt.Sprintf("images=%d/channels=%d-%d/side=%d/kernel=%d/weights=%s", k.images, k.from, k.to, k.side, k.kernel, weights), func(b *testing.B) {
				n := newNet()
				n.input("x", graph.Dim(k.images), graph.Dim(k.from), graph.Dim(k.side), graph.Dim(k.side))
				if weights == "constant" {
					n.weight("w", k.from, k.to, k.kernel, k.kernel)
				} else {
					n.input("w", graph.Dim(k.from), graph.Dim(k.to), graph.Dim(k.kernel), graph.Dim(k.kernel))
				}
				n.node("ConvTranspose", "y", "x", "w")
				n.g.Nodes[0].Attrs = attrs(integers("strides", 2, 2), integers("pads", k.pad, k.pad, k.pad, k.pad), integers("output_padding", k.more, k.more))
				side := graph.Dim(2*(k.side-1) + k.kernel - 2*k.pad + k.more)
				n.output("y", graph.Dim(k.images), graph.Dim(k.to), side, side)
				path := filepath.Join(b.TempDir(), "m.onnx")
				n.write(b, path)
				p, s := session(b, path, passes.Options{}, vm.Options{Workers: 1})
				in := noise(p)
				best := fastest(b, s, in)
				b.ReportMetric(best.Seconds()*1e3, "best-ms")
				b.ReportMetric(float64(s.Memory().ScratchBytes)/(1<<10), "scratch-KiB")
			})
		}
	}
}

// fastest returns the time of the fastest run of the loop.
func fastest(b *testing.B, s *vm.Session, in map[string]vm.Value) time.Duration {
	b.Helper()
	best := time.Duration(math.MaxInt64)
	for b.Loop() {
		start := time.Now()
		if _, err := s.Run(context.Background(), in); err != nil {
			b.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	return best
}

// noise returns a value for every input of a program: numbers in [0, 1), integers and
// booleans 1.
func noise(p *vm.Program) map[string]vm.Value {
	r := rand.New(rand.NewPCG(1, 2))
	in := map[string]vm.Value{}
	for _, t := range p.Inputs() {
		v := ramp(t.Type.Shape)
		v.Type = t.Type.Elem
		n := len(v.Data) / 4
		v.Data = v.Data[:0]
		for range n {
			switch v.Type {
			case graph.Float32:
				v.Data = binary.LittleEndian.AppendUint32(v.Data, math.Float32bits(r.Float32()))
			case graph.Int64:
				v.Data = binary.LittleEndian.AppendUint64(v.Data, 1)
			case graph.Bool:
				v.Data = append(v.Data, 1)
			}
		}
		in[t.Name] = v
	}
	return in
}
