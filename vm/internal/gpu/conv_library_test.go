package gpu

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/vm/cuda/fake"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// convolver is a bench with cuDNN, the fake's or that of the GPU; the fake is nil then.
func convolver(t *testing.T) (*bench, *fake.Fake) {
	t.Helper()
	b, f := benchWith(t, (*fake.Fake).UseDNN)
	b.kernels.OwnConvolutions, b.kernels.LibraryFloat32 = false, true
	if _, err := b.kernels.Queue.DNN(); err != nil {
		t.Skip(err)
	}
	return b, f
}

// convolverCases are convolutions beside those of convCases that cuDNN computes.
var convolverCases = []nodeCase{
	{op: "Conv", attrs: attrs(ints("pads", 1, 1), ints("strides", 2), ints("dilations", 2)), in: args(noise(2, 5, 17), noise(20, 5, 3), noise(20))},
	{op: "Conv", attrs: attrs(ints("pads", 1, 2, 1, 2), ints("strides", 2, 1), ints("dilations", 1, 2), whole("group", 2)), in: args(noise(2, 6, 9, 11), noise(40, 3, 3, 3), noise(40))},
	{op: "Conv", attrs: attrs(ints("pads", 1, 0, 1, 1, 0, 1), ints("strides", 1, 2, 1)), in: args(noise(2, 3, 5, 6, 7), noise(20, 3, 3, 3, 2), noise(20))},
	{op: "Conv", attrs: attrs(ints("pads", 0, 0, 1, 1), ints("strides", 2, 2)), in: args(noise(1, 3, 9, 9), noise(20, 3, 3, 3))}, // the padding is never met
	{op: "Conv", in: args(noise(2, 5, 6, 7), noise(20, 5, 1, 1), noise(20))},
	{op: "com.microsoft.FusedConv", attrs: attrs(text("activation", "Relu")), in: args(noise(1, 3, 6, 6), noise(20, 3, 3, 3), noise(20), noise(1, 20, 4, 4)), types: []graph.DType{graph.Float32}},
	{op: "com.microsoft.FusedConv", attrs: attrs(text("activation", "Relu")), in: args(noise(1, 3, 6, 6), noise(20, 3, 3, 3), nil, noise(1, 20, 4, 4)), types: []graph.DType{graph.Float32}},
	{op: "com.microsoft.FusedConv", attrs: attrs(text("activation", "Clip"), floats("activation_params", -1, 0.5)), in: args(noise(1, 3, 6, 6), noise(20, 3, 3, 3))},
	{op: "com.microsoft.FusedConv", attrs: attrs(text("activation", "HardSwish")), in: args(noise(1, 3, 6, 6), noise(20, 3, 3, 3), noise(20))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", 2, 3), ints("output_padding", 1, 2), ints("pads", 1, 1, 1, 1)), in: args(noise(2, 5, 4, 6), noise(5, 20, 3, 4), noise(20))},
	{op: "ConvTranspose", attrs: attrs(whole("group", 2), ints("dilations", 2, 1)), in: args(noise(2, 6, 4, 6), noise(6, 20, 3, 3))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", 2), ints("pads", 1, 1)), in: args(noise(1, 2, 5), noise(2, 20, 4), noise(20))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", 2, 1, 2)), in: args(noise(2, 3, 3, 4, 5), noise(3, 20, 3, 2, 3))},
	{op: "ConvTranspose", in: args(noise(2, 5, 4, 6), noise(5, 20, 1, 1))}, // without a workspace
	weightGrad([]int64{3, 3}, 1, []int64{2, 2}, []int64{1, 1}, []int64{1, 1, 1, 1}, noise(2, 5, 9, 11), noise(2, 7, 5, 6)),
	weightGrad([]int64{3, 2}, 2, []int64{1, 1}, []int64{2, 1}, []int64{1, 0, 1, 0}, noise(3, 10, 8, 9), noise(3, 34, 6, 8)),
	weightGrad([]int64{1, 1}, 1, []int64{2, 2}, []int64{1, 1}, []int64{0, 0, 0, 0}, noise(2, 4, 13, 13), noise(2, 33, 7, 7)),
	weightGrad([]int64{5}, 1, []int64{1}, []int64{2}, []int64{1, 1}, noise(1, 6, 50), noise(1, 9, 44)),
	weightGrad([]int64{2, 3, 2}, 1, []int64{1, 2, 1}, []int64{1, 1, 1}, []int64{0, 1, 0, 0, 1, 0}, noise(2, 4, 5, 6, 7), noise(2, 4, 4, 3, 6)),
}

// TestConvolutionsByLibrary: cuDNN gives what the plain evaluator does, for every convolution
// and gradient that it is given; the others, and why, are told. It may transform float32 by
// Winograd, which rounds more.
func TestConvolutionsByLibrary(t *testing.T) {
	b, f := convolver(t)
	type served struct {
		*prepared
		by bool
	}
	var list []served
	count := 0
	for i, c := range slices.Concat(convolverCases, convCases) {
		for _, d := range []graph.DType{graph.Float32, graph.Float16, graph.BFloat16} {
			if d == graph.BFloat16 && f != nil && !sweep.On() {
				continue
			}
			if c.types != nil && i < len(convolverCases) && !slices.Contains(c.types, d) {
				continue
			}
			c.tolerance = max(c.tolerance, 1e-4)
			before := b.kernels.convolved
			p := b.prepare(&c, d)
			if p == nil {
				continue
			}
			by := b.kernels.convolved > before
			list = append(list, served{p, by})
			if by {
				count++
			} else if i < len(convolverCases) && f != nil {
				t.Errorf("%s of %v and %v, %v: not by cuDNN", c.op, p.n.In[0].Shape, p.n.In[1].Shape, d)
			}
		}
	}
	b.must(b.kernels.Ready(func(int64) error { return nil }))
	if f != nil {
		f.ResetCounters()
	}
	for i, p := range list {
		t.Run(fmt.Sprintf("%03d-%s-%v", i, p.c.op, p.d), func(t *testing.T) { b.check(t, p.prepared) })
	}
	b.t = t
	if name, path, nodes, err := b.kernels.ConvolutionLibrary(); count > 0 && (!strings.HasPrefix(name, "cuDNN ") || path == "" || nodes != count || err != nil) {
		t.Errorf("%q in %q for %d nodes, %v: expected cuDNN for %d", name, path, nodes, err, count)
	}
	refused := b.kernels.RefusedConvolutions()
	t.Logf("%d of %d by cuDNN; refused: %v", count, len(list), refused)
	if f == nil {
		return
	}
	if n := f.Counters().Convolutions; n != uint64(2*count) {
		t.Errorf("%d calls of cuDNN for %d nodes that ran twice", n, count)
	}
	if len(refused) != 2 || refused["the padding differs at the ends of an axis"] == 0 || refused["an input of 16 bits is added"] == 0 {
		t.Errorf("refused: %v: expected some with uneven padding, and some with an added input", refused)
	}
}

// TestConvolutionFaults: where cuDNN is missing, made for a later CUDA, or fails when it is
// opened or a node is prepared, convolutions stay in kernels of this package, and the reason
// is told. Nothing of what it made is left.
func TestConvolutionFaults(t *testing.T) {
	if os.Getenv("ONNXMEM_TEST_GPU") != "" {
		t.Skip("needs a cuDNN that fails")
	}
	for _, c := range []struct{ library, fault, missing, refused string }{
		{library: "off", missing: "ONNXMEM_CUDNN is off"},
		{library: "/nonexistent/libcudnn.so.9", missing: "/nonexistent/libcudnn.so.9"},
		{library: "libm.so.6", missing: "it lacks cudnnCreate, cudnnDestroy"},
		{fault: "cuda", missing: "made for CUDA 99, the driver supports 13"},
		{fault: "create", missing: "cudnnCreate: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED (4004): no device memory"},
		{fault: "descriptor", refused: "cudnnCreateConvolutionDescriptor: CUDNN_STATUS_NOT_SUPPORTED (3000)"},
		{fault: "list", refused: "cudnnGetConvolutionForwardAlgorithm_v7: CUDNN_STATUS_NOT_SUPPORTED (3000)"},
		{fault: "algorithms", refused: "no algorithm that is deterministic and takes at most 256 MiB"},
		{fault: "workspace", refused: "no algorithm that is deterministic and takes at most 256 MiB"},
	} {
		t.Run(c.library+c.fault, func(t *testing.T) {
			f := fake.Use(t)
			f.UseDNN(t)
			if c.library != "" {
				t.Setenv("ONNXMEM_CUDNN", c.library)
			}
			f.FailDNN(c.fault)
			b := newFaultyBench(t, f, c.fault)
			p := b.prepare(&convolverCases[0], graph.Float32)
			b.must(b.kernels.Ready(func(int64) error { return nil }))
			b.check(t, p)
			name, _, nodes, err := b.kernels.ConvolutionLibrary()
			if name != "" || nodes != 0 {
				t.Errorf("%q for %d nodes, expected none", name, nodes)
			}
			if c.missing != "" && (err == nil || !strings.Contains(err.Error(), c.missing)) || c.missing == "" && err != nil {
				t.Errorf("%v, expected %q", err, c.missing)
			}
			if r := b.kernels.RefusedConvolutions(); c.refused != "" && r[c.refused] != 1 {
				t.Errorf("refused: %v, expected one by %q", r, c.refused)
			}
		})
	}
}

// newFaultyBench is a bench that asks for cuDNN, and that leaves nothing of it behind.
func newFaultyBench(t *testing.T, f *fake.Fake, fault string) *bench {
	t.Helper()
	t.Cleanup(func() {
		f.FailDNN("")
		if n := f.Counters().LiveObjects; n != 0 {
			t.Errorf("%d handles and descriptors of cuDNN are left", n)
		}
	})
	b := newBench(t)
	f.FailDNN(fault) // newBench resets it
	b.kernels.OwnConvolutions, b.kernels.LibraryFloat32 = false, true
	return b
}

// TestConvolutionFailsAtRun: an error of a convolution that was prepared is that of the node.
func TestConvolutionFailsAtRun(t *testing.T) {
	if os.Getenv("ONNXMEM_TEST_GPU") != "" {
		t.Skip("needs a cuDNN that fails")
	}
	f := fake.Use(t)
	f.UseDNN(t)
	b := newFaultyBench(t, f, "run")
	p := b.prepare(&convolverCases[0], graph.Float32)
	b.must(b.kernels.Ready(func(int64) error { return nil }))
	err := p.run((*work.Pool)(nil))
	if err == nil || !strings.Contains(err.Error(), "cudnnConvolutionForward: CUDNN_STATUS_EXECUTION_FAILED (5000): no kernel") {
		t.Errorf("got %v, expected cuDNN's reason", err)
	}
}

// TestConvolutionWorkspace: a convolution takes the workspace that its node has, and says how
// much it takes; what is too small is not used.
func TestConvolutionWorkspace(t *testing.T) {
	b, f := convolver(t)
	if f == nil {
		t.Skip("needs an algorithm with a workspace")
	}
	call := func() *form.Call {
		x, w := b.tensor(noise(1, 3, 8, 8), graph.Float32, false, false), b.tensor(noise(20, 3, 3, 3), graph.Float32, false, false)
		n := &graph.Node{Op: "Conv", Inputs: []graph.TensorID{0, 1}, Outputs: []graph.TensorID{2}}
		return &form.Call{Node: n, Version: 13, Runtime: alone{}, In: []*form.Tensor{x, w}, Out: []*form.Tensor{b.tensor(noise(1, 20, 6, 6), graph.Float32, false, true)}}
	}
	_, bytes, err := b.kernels.PrepareIn(call(), Workspace{})
	b.must(err)
	if bytes < 512 {
		t.Fatalf("%d bytes of scratch, expected those of the algorithm", bytes)
	}
	block, err := b.device.Take(bytes+64, "a workspace")
	b.must(err)
	b.blocks = append(b.blocks, block)
	for _, c := range []struct {
		bytes  int64
		within bool
	}{{bytes, true}, {bytes - scratchAlign, false}} {
		q, err := b.device.NewQueue()
		b.must(err)
		k := &Kernels{Queue: q, At: b.kernels.At, LibraryFloat32: true}
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
