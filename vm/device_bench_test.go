package vm_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// BenchmarkDeviceNode measures what a node on a device costs the CPU: gorgonia's machine,
// our bookkeeping and the call of a driver that does nothing.
func BenchmarkDeviceNode(b *testing.B) {
	d, f := onDevice(b)
	if f == nil {
		b.Skip("a GPU does the work of the kernels")
	}
	const nodes = 1000
	n := newNet()
	n.input("x", 4, 8)
	from := "x"
	for i := range nodes { // no two become one kernel
		to := fmt.Sprintf("y%d", i)
		n.node("Softmax", to, from)
		from = to
	}
	n.output(from, 4, 8)
	path := filepath.Join(b.TempDir(), "chain.onnx")
	n.write(b, path)
	p, _ := program(b, path, passes.Options{})
	for _, c := range []struct {
		name string
		opt  vm.Options
	}{{"machine", vm.Options{Device: d, NoReplay: true}}, {"replayed", vm.Options{Device: d}}} {
		b.Run(c.name, func(b *testing.B) {
			s := newSession(b, p, c.opt)
			inputs := inputsOf(p)
			f.Mode("null")
			defer f.Mode("lazy")
			for range 3 { // the recording
				if _, err := s.Run(b.Context(), inputs); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if _, err := s.Run(b.Context(), inputs); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/nodes, "ns/node")
		})
	}
}
