package kernel

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// asked is a runtime that is asked by its pool whether it is to stop.
type asked struct {
	alone
	pool *work.Pool
}

func (a *asked) Stopping() bool { return a.pool.Stopping() }

// stoppable is a kernel that is ready to run, on one worker.
type stoppable struct {
	pool  *work.Pool
	call  *Invocation
	run   Run
	polls int // since begin
	stop  int // the poll at which it is told to stop; 0: never
}

// prepare makes a kernel of a node that was laid out.
func (s *stoppable) prepare() error {
	s.pool = work.New(1)
	s.call.Runtime = &asked{pool: s.pool}
	s.pool.OnPoll(func() {
		if s.polls++; s.polls == s.stop {
			s.pool.Stop()
		}
	})
	var err error
	if s.run, err = Lookup(s.call.Node.Domain, s.call.Node.Op).Prepare(s.call); err != nil {
		return err
	}
	room := func(n int) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(make([]uint64, n/8+16))) }
	s.pool.SetScratch(room(s.call.SharedBytes), room(s.call.EachBytes), s.call.EachBytes)
	return nil
}

// begin runs the kernel and reports whether it was stopped, at a poll or never.
func (s *stoppable) begin(stop int) (stopped bool, err error) {
	s.pool.Resume()
	s.polls, s.stop = 0, stop
	defer func() {
		if r := recover(); r != nil {
			if stopped = r == any(work.ErrStopped); !stopped {
				err = fmt.Errorf("panicked with %v", r)
			}
		}
	}()
	return false, s.run(s.pool)
}

// A kernel that is stopped, wherever it asks, can run again and gives the same
// bits.
func TestStoppedKernelsRunAgain(t *testing.T) {
	for i := range nodeCases {
		k := &nodeCases[i]
		t.Run(fmt.Sprintf("%03d-%s", i, k.op), func(t *testing.T) {
			n, want, err := k.node(k.in)
			if err != nil {
				t.Fatal(err)
			}
			s := &stoppable{call: &Invocation{Call: form.Call{Node: n, Version: k.opset()}}}
			for _, x := range k.in {
				var in *Tensor
				if x != nil {
					in = store(x, graph.Float32)
				}
				s.call.In = append(s.call.In, in)
			}
			for _, w := range want {
				d := w.Type
				if w.F != nil {
					d = graph.Float32
				}
				s.call.Out = append(s.call.Out, blank(d, w.Shape))
			}
			if err := s.prepare(); err != nil {
				t.Fatal(err)
			}
			defer s.pool.Close()
			if stopped, err := s.begin(0); stopped || err != nil {
				t.Fatal(stopped, err)
			}
			all := s.polls
			var bits []string
			for _, out := range s.call.Out {
				bits = append(bits, string(raw(out)))
			}
			for _, at := range []int{1, (all + 1) / 2, all} {
				if stopped, err := s.begin(at); !stopped || err != nil {
					t.Fatalf("told at poll %d of %d: stopped: %v, %v", at, all, stopped, err)
				}
				if stopped, err := s.begin(0); stopped || err != nil {
					t.Fatal(stopped, err)
				}
				for o, out := range s.call.Out {
					if string(raw(out)) != bits[o] {
						t.Fatalf("output %d has other bits after a stop at poll %d of %d", o, at, all)
					}
				}
			}
		})
	}
}

// longCases are nodes whose work is one part of a kernel, one row, or lies outside
// of parts, with the shapes of their inputs and outputs.
var longCases = []struct {
	op      string
	version int64
	attrs   []*graph.Attr
	in      []*Tensor
	out     []*Tensor
}{
	{op: "CumSum", in: tensors(floats(long), number64(0)), out: tensors(floats(long))},
	{op: "ArgMax", in: tensors(floats(long)), out: tensors(whole64(1))},
	{op: "Hardmax", in: tensors(floats(1, long)), out: tensors(floats(1, long))},
	{op: "TopK", in: tensors(floats(long), number64(1)), out: tensors(floats(1), whole64(1))},
	{op: "DFT", version: 17, in: tensors(floats(1, 4099, 1)), out: tensors(floats(1, 4099, 2))}, // a prime
	{op: "Softmax", in: tensors(floats(long)), out: tensors(floats(long))},
	{op: "LogSoftmax", in: tensors(floats(long)), out: tensors(floats(long))},
	{op: "ReduceSum", in: tensors(floats(8, long)), attrs: attrs(ints("axes", 0, 1)), version: 11, out: tensors(floats(1, 1))},
	{op: "ReduceLogSumExp", in: tensors(floats(long)), attrs: attrs(ints("axes", 0)), version: 11, out: tensors(floats(1))},
	{op: "ReduceMax", in: tensors(floats(long)), attrs: attrs(ints("axes", 0)), version: 11, out: tensors(floats(1))},
	{op: "LayerNormalization", in: tensors(floats(long), floats(long), floats(long)), out: tensors(floats(long))},
	{op: "RMSNormalization", version: 23, in: tensors(floats(long), floats(long)), out: tensors(floats(long))},
	{op: "InstanceNormalization", in: tensors(floats(1, 1, long), floats(1), floats(1)), out: tensors(floats(1, 1, long))},
	{op: "BatchNormalization", in: tensors(floats(1, 1, long), floats(1), floats(1), floats(1), floats(1)), out: tensors(floats(1, 1, long))},
	{op: "MeanVarianceNormalization", in: tensors(floats(1, 1, 1, long)), out: tensors(floats(1, 1, 1, long))},
	{op: "LpNormalization", in: tensors(floats(long)), out: tensors(floats(long))},
	{op: "LRN", attrs: attrs(whole1("size", 1<<40)), in: tensors(floats(1, 1, long)), out: tensors(floats(1, 1, long))},
	{op: "MaxPool", attrs: attrs(ints("kernel_shape", 3)), in: tensors(floats(1, 1, long+2)), out: tensors(floats(1, 1, long))},
	{op: "MaxPool", attrs: attrs(ints("kernel_shape", long)), in: tensors(floats(1, 1, long)), out: tensors(floats(1, 1, 1), whole64(1, 1, 1))},
	{op: "LpPool", attrs: attrs(ints("kernel_shape", long)), in: tensors(floats(1, 1, long)), out: tensors(floats(1, 1, 1))},
	{op: "GlobalMaxPool", in: tensors(floats(1, 1, long)), out: tensors(floats(1, 1, 1))},
	{op: "MaxUnpool", attrs: attrs(ints("kernel_shape", 1)), in: tensors(floats(1, 1, long), whole64(1, 1, long)), out: tensors(floats(1, 1, long))},
	{op: "Transpose", attrs: attrs(ints("perm", 1, 0)), in: tensors(floats(8, long)), out: tensors(floats(long, 8))},
	{op: "Concat", attrs: attrs(whole1("axis", 0)), in: tensors(floats(long), floats(1)), out: tensors(floats(long + 1))},
	{op: "Tile", in: tensors(floats(1), number64(long)), out: tensors(floats(long))},
	{op: "Pad", in: tensors(floats(1), whole64(2)), out: tensors(floats(long))},
	{op: "Gather", in: tensors(floats(1), whole64(long)), out: tensors(floats(long))},
	{op: "Gather", in: tensors(floats(1, long), whole64(1)), out: tensors(floats(1, long))},
	{op: "GatherElements", in: tensors(floats(long), whole64(long)), out: tensors(floats(long))},
	{op: "ReverseSequence", in: tensors(floats(1, long), whole64(long)), out: tensors(floats(1, long))},
	{op: "GatherND", in: tensors(floats(1), whole64(long, 1)), out: tensors(floats(long))},
	{op: "ScatterElements", in: tensors(floats(long), whole64(long), floats(long)), out: tensors(floats(long))},
	{op: "ScatterND", in: tensors(floats(long), whole64(1, 1), floats(1)), out: tensors(floats(long))},
	{op: "OneHot", in: tensors(whole64(1), number64(long), floats(2)), out: tensors(floats(1, long))},
	{op: "Trilu", in: tensors(floats(long, 1)), out: tensors(floats(long, 1))},
	{op: "ConstantOfShape", in: tensors(whole64(1)), out: tensors(floats(long))},
	{op: "Range", in: tensors(floats(), floats(), floats()), out: tensors(floats(long))},
	{op: "HannWindow", in: tensors(number64(long)), out: tensors(floats(long))},
	{op: "EyeLike", in: tensors(floats(long, 1)), out: tensors(floats(long, 1))},
	{op: "Resize", attrs: attrs(text("mode", "linear")), in: tensors(floats(1, 2), nil, nil, whole64(2)), out: tensors(floats(1, long))},
	{op: "RoiAlign", attrs: attrs(whole1("sampling_ratio", 1<<9)), in: tensors(floats(1, 1, 4, 4), floats(1, 4), whole64(1)), out: tensors(floats(1, 1, 1, 1))},
	{op: "MaxRoiPool", attrs: attrs(ints("pooled_shape", 1, 1)), in: tensors(floats(1, 1, 1024, 1024), region(0, 0, 0, 1023, 1023)), out: tensors(floats(1, 1, 1, 1))},
	{op: "AffineGrid", in: tensors(floats(1, 2, 3), whole64(4)), out: tensors(floats(1, long, 1, 2))},
	{op: "GridSample", in: tensors(floats(1, long, 1, 1), floats(1, 1, 1, 2)), out: tensors(floats(1, long, 1, 1))},
	{op: "Dropout", version: 13, in: tensors(floats(long), floats(), &Tensor{Type: graph.Bool, Shape: []int{}, At: unsafe.Pointer(&yes)}), out: tensors(floats(long))},
	{op: "Det", in: tensors(floats(256, 256)), out: tensors(floats())},
	{op: "MatMul", in: tensors(floats(1, long), floats(long, 64)), out: tensors(floats(1, 64))},
	{op: "MatMul", in: tensors(doubles(1, long), doubles(long, 1)), out: tensors(doubles(1, 1))},
	{op: "Conv", in: tensors(doubles(1, 1, long), doubles(1, 1, 1)), out: tensors(doubles(1, 1, long))},
	{op: "ConvTranspose", in: tensors(doubles(1, 1, long), doubles(1, 1, 1)), out: tensors(doubles(1, 1, long))},
	{op: "LSTM", attrs: attrs(whole1("hidden_size", 128)), in: tensors(floats(8, 1, 128), floats(1, 512, 128), floats(1, 512, 128)), out: tensors(floats(8, 1, 1, 128))},
	{op: "SoftmaxCrossEntropyLoss", in: tensors(floats(1, long), whole64(1)), out: tensors(floats())},
	{op: "com.microsoft.SkipSimplifiedLayerNormalization", in: tensors(floats(1, 1, long), floats(1, 1, long), floats(long)), out: tensors(floats(1, 1, long))},
	{op: "com.microsoft.SkipLayerNormalization", in: tensors(floats(1, 1, long), floats(1, 1, long), floats(long)), out: tensors(floats(1, 1, long))},
}

// long is so many elements that a kernel must poll some times.
const long = 8 * work.PollEvery

// yes is the element of a bool.
var yes = true

// cleared is a tensor whose elements are 0: as indices they are sound.
func cleared(d graph.DType, shape []int) *Tensor {
	t := blank(d, shape)
	clear(raw(t))
	return t
}

func tensors(list ...*Tensor) []*Tensor      { return list }
func floats(shape ...int) *Tensor            { return cleared(graph.Float32, shape) }
func doubles(shape ...int) *Tensor           { return cleared(graph.Float64, shape) }
func whole64(shape ...int) *Tensor           { return cleared(graph.Int64, shape) }
func number64(v int64, shape ...int) *Tensor { return store(reference.Ints(shape, v), graph.Int64) }

// Kernels ask often whether they are to stop, however their work is cut.
func TestKernelsPoll(t *testing.T) {
	for _, k := range longCases {
		n := &graph.Node{Op: k.op, Attrs: k.attrs}
		if op, ours := strings.CutPrefix(k.op, "com.microsoft."); ours {
			n.Domain, n.Op = "com.microsoft", op
		}
		version := k.version
		if version == 0 {
			version = 18
		}
		s := &stoppable{call: &Invocation{Call: form.Call{Node: n, Version: version, In: k.in, Out: k.out}}}
		if err := s.prepare(); err != nil {
			t.Errorf("%s: %v", k.op, err)
			continue
		}
		stopped, err := s.begin(0)
		if stopped || err != nil {
			t.Errorf("%s: stopped: %v, %v", k.op, stopped, err)
		}
		if s.polls < 4 {
			t.Errorf("%s: asked %d times, expected at least 4", k.op, s.polls)
		}
		s.pool.Close()
	}
}
