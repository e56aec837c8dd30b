package vm_test

import (
	"bytes"
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// mutateKernel makes the kernels of an operator wrong until the test ends: spoil can change
// the result of each node after it has run.
func mutateKernel(t *testing.T, domain, op string, spoil func(c *kernel.Invocation)) {
	t.Helper()
	k := kernel.Lookup(domain, op)
	was := *k
	t.Cleanup(func() { *k = was })
	k.Make = func(c *kernel.Invocation) (kernel.Run, error) {
		run, err := was.Make(c)
		if err != nil {
			return nil, err
		}
		return func(w *work.Pool) error {
			if err := run(w); err != nil {
				return err
			}
			spoil(c)
			return nil
		}, nil
	}
}

// bytesOf returns the bytes of a tensor's elements.
func bytesOf(t *kernel.Tensor) []byte { return unsafe.Slice((*byte)(t.At), t.Bytes()) }

// wrongElement changes the middle element of the first output by a thousandth of the
// largest element, or by the resolution of d, the output's dtype in the model.
func wrongElement(c *kernel.Invocation, d graph.DType) {
	out := c.Out[0]
	x, err := reference.Decode(out.Type, out.Shape, bytesOf(out))
	if err != nil || out.Len() == 0 {
		return
	}
	i, largest := out.Len()/2, 0.0
	for _, v := range x.F {
		if !math.IsInf(v, 0) {
			largest = max(largest, math.Abs(v))
		}
	}
	switch {
	case out.Type == graph.Bool:
		x.I[i] = 1 - x.I[i]
	case out.Type.Integer() && x.I[i] > 0:
		x.I[i]--
	case out.Type.Integer():
		x.I[i]++
	case math.IsNaN(x.F[i]) || math.IsInf(x.F[i], 0):
		x.F[i] = 1
	case largest == 0:
		x.F[i] = 1e-3
	default:
		part := map[graph.DType]float64{graph.Float16: 0x1p-8, graph.BFloat16: 0x1p-5, graph.Float32: 1e-3, graph.Float64: 1e-3}[d]
		if part == 0 { // a byte or less
			part = 1
		}
		if x.F[i] > 0 { // not beyond the largest
			part = -part
		}
		x.F[i] += part * largest
	}
	copy(bytesOf(out), reference.Output{Tensor: x}.Stored().Encode())
}

// undecided matches the operator tests whose middle element has two right values: a number
// lies halfway between two integers, and the nearer one depends on a rounding.
var undecided = regexp.MustCompile(`^test_(dynamicquantizelinear|gridsample_(volumetric_)?nearest_.*)$`)

// TestReferenceSeesWrongElements makes one element of one result of every operator test
// wrong, and expects the check to detect it.
func TestReferenceSeesWrongElements(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range readNodeTests(t) {
		m, err := onnx.Parse(k.name, k.files["model.onnx"])
		if err != nil || len(m.Graph.Nodes) != 1 {
			continue
		}
		n := m.Graph.Nodes[0]
		if kernel.Lookup(n.Domain, n.Op) == nil || strings.HasSuffix(k.name, "_expanded") {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			changed := false
			mutateKernel(t, n.Domain, n.Op, func(c *kernel.Invocation) {
				was := bytes.Clone(bytesOf(c.Out[0]))
				wrongElement(c, m.Graph.Tensors[n.Outputs[0]].Type.Elem)
				changed = changed || !bytes.Equal(was, bytesOf(c.Out[0]))
			})
			r, err := k.reference()
			switch {
			case errors.Is(err, errUnclaimed) || !changed:
			case err != nil:
				t.Fatal(err)
			case len(r.Uncompared) > 0:
			case r.First == nil && undecided.MatchString(k.name):
			case r.First == nil:
				t.Errorf("%s: not seen", n.Op)
			default:
				seen[n.Op] = true
			}
		})
	}
	if len(seen) < 160 {
		t.Errorf("wrong elements of %d operators are seen, expected at least 160", len(seen))
	}
}

// blind makes a kernel that reads 0 for element i of input 1.
func blind(make func(*kernel.Invocation) (kernel.Run, error), i int) func(*kernel.Invocation) (kernel.Run, error) {
	return func(c *kernel.Invocation) (kernel.Run, error) {
		run, err := make(c)
		if err != nil {
			return nil, err
		}
		return func(w *work.Pool) error {
			p := (*float32)(unsafe.Add(c.In[1].At, 4*i))
			was := *p
			*p = 0
			defer func() { *p = was }()
			return run(w)
		}, nil
	}
}
