package vm_test

import (
	"context"
	"encoding/binary"
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
				best := time.Duration(math.MaxInt64)
				for b.Loop() {
					start := time.Now()
					if _, err := s.Run(context.Background(), in); err != nil {
						b.Fatal(err)
					}
					best = min(best, time.Since(start))
				}
				m := s.Memory()
				b.ReportMetric(best.Seconds()*1e3, "best-ms")
				b.ReportMetric(float64(m.PackedBytes)/(1<<20), "packed-MiB")
				b.ReportMetric(float64(m.ScratchBytes)/(1<<20), "scratch-MiB")
			})
		}
	}
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
