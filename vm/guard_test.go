package vm_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"testing"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// peek returns n bytes at an offset from a tensor, inside of it or not.
func peek(t *kernel.Tensor, off, n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(t.At, off)), n)
}

// A guard detects every kind of access outside of a kernel's tensors, and names the node,
// the tensor and the byte.
func TestGuardFindsAccesses(t *testing.T) {
	n := newNet()
	n.input("x", 3, 33)
	n.weight("w", 33, 5)
	n.node("MatMul", "a", "x", "w")
	n.node("Relu", "y", "a")
	n.output("y", 3, 5)
	path := filepath.Join(t.TempDir(), "net.onnx")
	n.write(t, path)
	var sum byte
	const end, front = vm.GuardEnd, vm.GuardFront
	cases := []struct {
		name  string
		guard vm.Guard
		run   func(c *kernel.Invocation, w *work.Pool) error
		want  string // "": no fault
	}{
		{"all of its tensors", end, func(c *kernel.Invocation, w *work.Pool) error {
			for _, t := range append(c.In, c.Out...) {
				sum += peek(t, 0, 1)[0] + peek(t, t.Bytes()-1, 1)[0]
			}
			peek(c.Out[0], 0, c.Out[0].Bytes())[0] = 1
			return nil
		}, ""},
		{"a byte behind an input is read", end, func(c *kernel.Invocation, w *work.Pool) error {
			sum += peek(c.In[0], 396, 1)[0]
			return nil
		}, `memory fault at byte 396 of tensor "x", which has 396`},
		{"a byte behind a constant is read, on another goroutine", end, func(c *kernel.Invocation, w *work.Pool) error {
			got := make([]byte, 8)
			w.For(8, func(part, _ int) { got[part] = peek(c.In[1], 660, 1)[0] })
			return nil
		}, `memory fault at byte 660 of constant tensor "w", which has 660`},
		{"a constant is written", end, func(c *kernel.Invocation, w *work.Pool) error {
			peek(c.In[1], 7, 1)[0] = 1
			return nil
		}, `memory fault at a write to byte 7 of constant tensor "w", which is constant`},
		{"a copy ends behind the output", end, func(c *kernel.Invocation, w *work.Pool) error {
			copy(peek(c.Out[0], 0, 64), make([]byte, 64))
			return nil
		}, `memory fault at byte \d+ of tensor "a", which has 60`},
		{"a kernel in assembly reads too much", end, func(c *kernel.Invocation, w *work.Pool) error {
			simd.Tanh(make([]float32, 128), unsafe.Slice((*float32)(c.In[0].At), 128))
			return nil
		}, `memory fault at byte \d+ of tensor "x", which has 396`},
		{"a byte before the output is written, in the same page", end, func(c *kernel.Invocation, w *work.Pool) error {
			peek(c.Out[0], -3, 1)[0] = 1
			return nil
		}, `stray write: wrote a byte 3 before the start of tensor "a" \(60 bytes\)`},
		{"and one a page before it", end, func(c *kernel.Invocation, w *work.Pool) error {
			peek(c.Out[0], 60-4097, 1)[0] = 1
			return nil
		}, `memory fault at 4037 bytes before the start of tensor "a" \(60 bytes\)`},
		{"the guard in front sees a read before an input", front, func(c *kernel.Invocation, w *work.Pool) error {
			sum += peek(c.In[0], -1, 1)[0]
			return nil
		}, `memory fault at 1 bytes before the start of tensor "x" \(396 bytes\)`},
		{"and a write behind the output", front, func(c *kernel.Invocation, w *work.Pool) error {
			peek(c.Out[0], 60, 1)[0] = 1
			return nil
		}, `stray write: wrote a byte 1 behind the end of tensor "a" \(60 bytes\)`},
		{"scratch is read beyond what was asked for", end, func(c *kernel.Invocation, w *work.Pool) error {
			part := c.Walls.Each[0]
			sum += *(*byte)(w.Each(1, c.Walls.Pages(part)*c.Walls.Page))
			return nil
		}, `memory fault at byte \d+ of part 0 of scratch of worker 1 of node "a" \(MatMul\), which has \d+`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, s := session(t, path, passes.Options{}, vm.Options{Guard: c.guard, Workers: 2})
			s.SetRun(0, c.run)
			_, err := s.Run(t.Context(), map[string]vm.Value{"x": ramp([]graph.Dim{3, 33})})
			switch {
			case c.want == "" && err == nil:
			case err == nil:
				t.Fatal("nothing was found")
			case !regexp.MustCompile(`node "a" \(MatMul\): ` + c.want + ` \(algorithm: GEMM, prepacked, relu\)$`).MatchString(err.Error()):
				t.Errorf("got %v\nwant %s", err, c.want)
			case !errors.Is(err, vm.ErrFault) && !errors.Is(err, store.ErrStray):
				t.Errorf("%v is of neither kind", err)
			}
		})
	}
}

// Without a guard, too, a fault ends only the run, and not the process.
func TestFaultIsAnError(t *testing.T) {
	n := newNet()
	n.input("x", 3, 4)
	n.node("Relu", "y", "x")
	n.output("y", 3, 4)
	path := filepath.Join(t.TempDir(), "net.onnx")
	n.write(t, path)
	_, s := session(t, path, passes.Options{}, vm.Options{Workers: 2})
	for _, parts := range []int{1, 8} {
		s.SetRun(0, func(c *kernel.Invocation, w *work.Pool) error {
			w.For(parts, func(int, int) { clear(peek(c.Out[0], 1<<46, 64)) })
			return nil
		})
		_, err := s.Run(t.Context(), map[string]vm.Value{"x": ramp([]graph.Dim{3, 4})})
		if !errors.Is(err, vm.ErrFault) || !regexp.MustCompile(`node "y" \(Relu\): internal error: memory fault at address 0x[0-9a-f]+$`).MatchString(err.Error()) {
			t.Errorf("%d parts: got %v", parts, err)
		}
	}
}

// A guarded run gives the same bits as an unguarded one.
func TestGuardedLightNetworks(t *testing.T) {
	for _, file := range lightNetworks(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			large(t, filepath.Base(file), "light_bvlc_alexnet.onnx", "light_densenet121.onnx", "light_inception_v1.onnx", "light_resnet50.onnx")
			p, s := session(t, file, passes.Options{}, vm.Options{})
			in := p.Inputs()
			inputs := map[string]vm.Value{in[0].Name: ramp(in[0].Type.Shape)}
			out, err := s.Run(t.Context(), inputs)
			if err != nil {
				t.Fatal(err)
			}
			for _, opt := range []vm.Options{{Guard: vm.GuardEnd}, {Guard: vm.GuardFront, NoPack: true}} {
				g := newSession(t, p, opt)
				got, err := g.Run(t.Context(), inputs)
				if err != nil {
					t.Fatal(err)
				}
				for name := range out {
					if !bytes.Equal(got[name].Data, out[name].Data) {
						t.Errorf("%+v: output %s has other bits", opt, name)
					}
				}
				g.Close()
			}
		})
	}
}

// No kernel reads or writes outside of its tensors and of the scratch that it
// asked for, in any of ONNX's operator tests.
func TestGuardedNodeTests(t *testing.T) {
	for _, k := range readNodeTests(t) {
		p, err := k.program(passes.FoldOff)
		if err != nil {
			continue // TestNodeTests reports it
		}
		for _, opt := range []vm.Options{
			{Guard: vm.GuardEnd, Workers: 1},
			{Guard: vm.GuardFront, Workers: 1, Separate: true, NoPack: true},
		} {
			if err := k.runIn(p, opt); errors.Is(err, vm.ErrFault) || errors.Is(err, store.ErrStray) {
				t.Errorf("%s, %+v: %v", k.name, opt, err)
			}
		}
		if err := p.Close(); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
	}
}

// BenchmarkGuard builds, runs and closes a session of a small model.
func BenchmarkGuard(b *testing.B) {
	for _, k := range readNodeTests(b) {
		if k.name != "test_basic_conv_without_padding" && k.name != "test_gemm_default_matrix_bias" {
			continue
		}
		for _, opt := range []vm.Options{{Workers: 1}, {Workers: 1, Guard: vm.GuardEnd}, {Workers: 1, Guard: vm.GuardFront}} {
			b.Run(k.name+"/guard="+[]string{"off", "end", "front"}[opt.Guard], func(b *testing.B) {
				p, err := k.program(passes.FoldOff)
				if err != nil {
					b.Fatal(err)
				}
				defer p.Close()
				inputs, err := k.inputs(p)
				if err != nil {
					b.Fatal(err)
				}
				b.ResetTimer()
				for range b.N {
					s, err := p.NewSession(opt)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := s.Run(context.Background(), inputs); err != nil {
						b.Fatal(err)
					}
					if err := s.Close(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
