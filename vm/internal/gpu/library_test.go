package gpu

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/cuda/fake"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// benchWith is a bench where a library is: the fake's, which use asks for, or that of the GPU;
// the fake is nil then.
func benchWith(t *testing.T, use func(*fake.Fake, testing.TB)) (*bench, *fake.Fake) {
	t.Helper()
	if os.Getenv("ONNXMEM_TEST_GPU") != "" {
		return newBench(t), nil
	}
	f := fake.Use(t)
	use(f, t)
	return newBench(t), f
}

// libraryBench is a bench with cuBLAS, the fake's or that of the GPU; the fake is nil then.
func libraryBench(t *testing.T) (*bench, *fake.Fake) {
	t.Helper()
	b, f := benchWith(t, (*fake.Fake).UseBLAS)
	b.kernels.OwnProducts = false
	if _, err := b.kernels.Queue.BLAS(); err != nil {
		t.Skip(err)
	}
	return b, f
}

// libraryCases are products beside those of matmulCases: each way to lie in memory.
var libraryCases = []nodeCase{
	{op: "MatMul", in: args(noise(1, 9), noise(9, 7))},
	{op: "MatMul", in: args(noise(7, 9), noise(9, 1))},
	{op: "MatMul", in: args(noise(5, 1), noise(1, 7))},
	{op: "MatMul", in: args(noise(1, 1), noise(1, 1))},
	{op: "MatMul", in: args(noise(2, 3, 1, 5, 9), noise(3, 4, 9, 6))},
	{op: "MatMul", in: args(noise(4, 1, 3, 5, 9), noise(1, 2, 1, 9, 6))},
	{op: "Gemm", attrs: attrs(whole("transA", 1)), in: args(noise(9, 1), noise(9, 7), noise(7))},
	{op: "Gemm", attrs: attrs(whole("transB", 1), real("beta", 0.5)), in: args(noise(1, 9), noise(7, 9), noise(1, 7))},
	{op: "com.microsoft.FusedGemm", attrs: attrs(text("activation", "Clip"), real("activation_alpha", -0.5), real("activation_beta", 0.75), real("alpha", 0.5)), in: args(noise(5, 7), noise(7, 8), noise(5, 1))},
	{op: "Einsum", attrs: attrs(text("equation", "ij,kj->ki")), in: args(noise(6, 9), noise(5, 9))},
	{op: "Einsum", attrs: attrs(text("equation", "ji,jk->ki")), in: args(noise(9, 6), noise(9, 5))},
	{op: "Einsum", attrs: attrs(text("equation", "bij,jk->bik")), in: args(noise(3, 6, 9), noise(9, 5))},
	{op: "Einsum", attrs: attrs(text("equation", "bhij,hjk->bhik")), in: args(noise(2, 3, 6, 9), noise(3, 9, 5))},
}

// TestProductsByLibrary: cuBLAS gives what the plain evaluator does, for every product that
// it is given, with its workspace within the node's.
func TestProductsByLibrary(t *testing.T) {
	b, f := libraryBench(t)
	halves := []graph.DType{graph.Float32, graph.Float16, graph.BFloat16}
	type served struct {
		*prepared
		by bool
	}
	var list []served
	for _, c := range append(append([]nodeCase{}, matmulCases...), libraryCases...) {
		for _, d := range halves {
			before := b.kernels.served
			if p := b.prepare(&c, d); p != nil {
				list = append(list, served{p, b.kernels.served > before})
			}
		}
	}
	b.must(b.kernels.Ready(func(int64) error { return nil }))
	if f != nil {
		f.ResetCounters()
	}
	count := 0
	for i, p := range list {
		t.Run(fmt.Sprintf("%03d-%s-%v", i, p.c.op, p.d), func(t *testing.T) { b.check(t, p.prepared) })
		if p.by {
			count++
		}
		if c := p.c; !p.by && (c.op == "MatMul" || c.op == "Gemm") && p.n.In[0].Type.Bits() <= 32 && isFloat(p.n.In[0]) && p.n.In[0].Len() > 0 {
			t.Errorf("%s of %v and %v, %v: not by cuBLAS", c.op, p.n.In[0].Shape, p.n.In[1].Shape, p.d)
		}
	}
	b.t = t
	if f != nil {
		if n := f.Counters().Products; n < uint64(2*count) {
			t.Errorf("%d calls of cuBLAS for %d nodes that ran twice", n, count)
		}
	}
	if name, path, nodes, err := b.kernels.Library(); !strings.HasPrefix(name, "cuBLAS ") || path == "" || nodes != count || err != nil {
		t.Errorf("%q in %q for %d nodes, %v: expected cuBLAS for %d", name, path, nodes, err, count)
	}
}

// TestLibraryWorkspace: a product takes the workspace that its node has, and says how much
// it takes; what is too small is not used.
func TestLibraryWorkspace(t *testing.T) {
	b, _ := libraryBench(t)
	call := func() *form.Call {
		x, y := b.tensor(noise(5, 7), graph.Float32, false, false), b.tensor(noise(7, 6), graph.Float32, false, false)
		n := &graph.Node{Op: "MatMul", Inputs: []graph.TensorID{0, 1}, Outputs: []graph.TensorID{2}}
		return &form.Call{Node: n, Version: 13, Runtime: alone{}, In: []*form.Tensor{x, y}, Out: []*form.Tensor{b.tensor(noise(5, 6), graph.Float32, false, true)}}
	}
	_, bytes, err := b.kernels.PrepareIn(call(), Workspace{})
	b.must(err)
	if least := int64(4 << 20); bytes < least {
		t.Fatalf("%d bytes of scratch, expected at least %d", bytes, least)
	}
	block, err := b.device.Take(bytes+64, "a workspace")
	b.must(err)
	b.blocks = append(b.blocks, block)
	for _, c := range []struct {
		bytes  int64
		within bool
	}{{bytes, true}, {bytes - 256, false}} {
		q, err := b.device.NewQueue()
		b.must(err)
		k := &Kernels{Queue: q, At: b.kernels.At}
		run, _, err := k.PrepareIn(call(), Workspace{At: block.At + 64, Bytes: c.bytes})
		b.must(err)
		b.must(k.Ready(func(int64) error { return nil }))
		b.must(run((*work.Pool)(nil)))
		if (q.ScratchBytes() == 0) != c.within {
			t.Errorf("a workspace of %d bytes: %d bytes of scratch beside it", c.bytes, q.ScratchBytes())
		}
		b.must(q.Close())
	}
}

// TestNoLibrary: where cuBLAS is missing, or lacks a function, products stay in kernels of
// this package, and the reason is told.
func TestNoLibrary(t *testing.T) {
	for _, c := range []struct{ name, value, reason string }{
		{"off", "off", "ONNXMEM_CUBLAS is off"},
		{"a file that is not there", "/nonexistent/libcublas.so.13", "/nonexistent/libcublas.so.13"},
		{"a library of something else", "libm.so.6", "it lacks cublasCreate_v2, cublasDestroy_v2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if os.Getenv("ONNXMEM_TEST_GPU") == "" {
				fake.Use(t)
			}
			t.Setenv("ONNXMEM_CUBLAS", c.value)
			b := newBench(t)
			b.kernels.OwnProducts = false
			p := b.prepare(&nodeCase{op: "MatMul", in: args(noise(5, 9), noise(9, 7))}, graph.Float32)
			b.must(b.kernels.Ready(func(int64) error { return nil }))
			b.check(t, p)
			name, _, nodes, err := b.kernels.Library()
			if name != "" || nodes != 0 || !errors.Is(err, driver.ErrNoBLAS) || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("%q for %d nodes, %v: expected none, because of %q", name, nodes, err, c.reason)
			}
		})
	}
}
