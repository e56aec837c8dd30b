package gpu

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// hostCase is a node whose device kernel is held against the host's kernel, element by
// element.
type hostCase struct {
	domain, op string
	version    int64 // 0: 18
	attrs      []*graph.Attr
	in         []*form.Tensor
	to         graph.DType // of the output; 0: that of input 0
	shape      []int       // of the output; nil: that of input 0
}

// specials are reals that a formula easily gets wrong.
var specials = []float64{
	math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 0x1p-149, -0x1p-149, 1e-40, -1e-40, 0x1p-24, 1e-5, -1e-5,
	0.5, -0.5, 1, -1, 1.5, -1.5, 2, -2, 2.5, -2.5, 3, -3, 5.75, -5.75, 20, -20, 87, -87, 104, -104, 300.5, -300.5, 40000, -40000,
	70000, 3e9, -3e9, 5e9, 1e10, 1e18, -1e18, 1e19, -1e19, 3e19, 1e30, -1e30, math.MaxFloat32, -math.MaxFloat32,
}

// extremes are integers at the ends of the ranges of dtypes.
var extremes = []int64{
	0, 1, -1, 2, -2, 3, -3, 7, 100, 127, 128, -128, -129, 255, 256, 32767, 32768, -32768, -32769, 65535, 65536, 1<<24 + 1,
	math.MaxInt32, math.MaxInt32 + 1, math.MinInt32, math.MinInt32 - 1, 1<<32 - 1, 1 << 32, 1<<53 + 1, 0x7fffff4000000001, math.MaxInt64, math.MinInt64, -1 << 40,
}

// blank makes a tensor on the host.
func blank(d graph.DType, shape ...int) *form.Tensor {
	t := &form.Tensor{Type: d, Shape: append([]int{}, shape...)}
	words := make([]uint64, t.Bytes()/8+1)
	t.At = unsafe.Pointer(&words[0])
	return t
}

// content is the bytes of a tensor.
func content(t *form.Tensor) []byte { return unsafe.Slice((*byte)(t.At), t.Bytes()) }

// oddities makes a tensor of a dtype with what its kernels may get wrong. Booleans have
// bytes other than 0 and 1.
func oddities(d graph.DType) *form.Tensor {
	if isReal(d) {
		t := blank(d, len(specials))
		if err := form.Store(t, specials, nil); err != nil {
			panic(err)
		}
		return t
	}
	t := blank(d, len(extremes))
	width := t.Bytes() / t.Len()
	for i, v := range extremes {
		copy(content(t)[i*width:(i+1)*width], unsafe.Slice((*byte)(unsafe.Pointer(&v)), width))
	}
	return t
}

// pairs returns two tensors with all pairs of elements of two others.
func pairs(a, b *form.Tensor) []*form.Tensor {
	x, y := blank(a.Type, a.Len()*b.Len()), blank(b.Type, a.Len()*b.Len())
	n, m := a.Bytes()/a.Len(), b.Bytes()/b.Len()
	for i := range x.Len() {
		j, k := i/b.Len(), i%b.Len()
		copy(content(x)[i*n:], content(a)[j*n:(j+1)*n])
		copy(content(y)[i*m:], content(b)[k*m:(k+1)*m])
	}
	return []*form.Tensor{x, y}
}

func (c *hostCase) String() string {
	var types []graph.DType
	for _, t := range c.in {
		types = append(types, t.Type)
	}
	return fmt.Sprintf("%s %s of %v to %v", c.domain, c.op, types, c.invocation().Out[0].Type)
}

// invocation is the node of a case, with an output of its own.
func (c *hostCase) invocation() *form.Call {
	n := &form.Call{
		Node:    &graph.Node{Op: c.op, Domain: c.domain, Attrs: c.attrs},
		Version: c.version, In: c.in, Runtime: alone{},
	}
	if n.Version == 0 {
		n.Version = 18
	}
	to, shape := c.to, c.shape
	if to == 0 {
		to = c.in[0].Type
	}
	if shape == nil {
		shape = c.in[0].Shape
	}
	n.Out = []*form.Tensor{blank(to, shape...)}
	return n
}

// upload gives a tensor a place on the device, with its content.
func (b *bench) upload(t *form.Tensor) {
	b.t.Helper()
	if b.at[t] != 0 {
		return
	}
	block, err := b.device.Take(int64(t.Bytes()), "a tensor")
	b.must(err)
	b.blocks = append(b.blocks, block)
	b.at[t] = block.At
	b.must(driver.UploadNow(block.At, t.At, int64(t.Bytes())))
}

// TestAgainstHost: device kernels treat NaN, infinities, zeros, subnormal numbers and the
// ends of ranges as the host's kernels do.
func TestAgainstHost(t *testing.T) {
	b := newBench(t)
	type pair struct {
		c      *hostCase
		host   *kernel.Invocation
		device *form.Call
		run    form.Run
	}
	var list []pair
	pool := work.New(1)
	defer pool.Close()
	for i := range hostCases {
		p := pair{c: &hostCases[i]}
		p.host, p.device = &kernel.Invocation{Call: *p.c.invocation()}, p.c.invocation()
		run, err := kernel.Lookup(p.c.domain, p.c.op).Prepare(p.host)
		if err != nil {
			t.Fatalf("%v: %v", p.c, err)
		}
		shared, each := blank(graph.Uint8, p.host.SharedBytes+64), blank(graph.Uint8, p.host.EachBytes+64)
		pool.SetScratch(shared.At, each.At, p.host.EachBytes)
		b.must(run(pool))
		for _, x := range slices.Concat(p.device.In, p.device.Out) {
			b.upload(x)
		}
		if p.run, err = b.kernels.Prepare(p.device); err != nil {
			t.Errorf("%v: %v", p.c, err)
			continue
		}
		list = append(list, p)
	}
	b.must(b.kernels.Ready(func(int64) error { return nil }))
	for _, p := range list {
		b.must(p.run(nil))
		b.must(b.kernels.Queue.Stream.Synchronize())
		y := p.device.Out[0]
		b.must(driver.DownloadNow(y.At, b.at[y], int64(y.Bytes())))
		anyZero := p.c.op == "Erf" || p.c.op == "Tanh" || p.c.op == "Clip" // the host's vectors lose the sign of -0
		floor := 0x1p-126
		if p.c.op == "Gelu" { // the host's loses its digits where erf is near -1
			floor = 0x1p-21
		}
		if at := differs(y, p.host.Out[0], floor, anyZero); at >= 0 {
			got, _ := y.Reals()
			want, _ := p.host.Out[0].Reals()
			var from []float64
			for _, x := range p.c.in {
				if v, _ := x.Reals(); len(v) == len(got) {
					from = append(from, v[at])
				}
			}
			t.Errorf("%v: element %d, of %v: got %v, want %v", p.c, at, from, got[at], want[at])
		}
	}
}

// differs returns the first element in which two tensors differ: reals by more than 1e-6 of
// the element and than floor, others in a bit; -1 if there is none. anyZero takes -0 for 0.
func differs(got, want *form.Tensor, floor float64, anyZero bool) int {
	a, _ := got.Reals()
	b, _ := want.Reals()
	width := got.Bytes() / got.Len()
	tolerance := map[graph.DType]float64{graph.Float16: 1e-3, graph.BFloat16: 8e-3}[got.Type] + 1e-6
	for i := range a {
		switch {
		case bytes.Equal(content(got)[i*width:(i+1)*width], content(want)[i*width:(i+1)*width]):
		case !isReal(got.Type):
			return i
		case a[i] != a[i] && b[i] != b[i], anyZero && a[i] == 0 && b[i] == 0:
		case math.Signbit(a[i]) == math.Signbit(b[i]) && math.Abs(a[i]-b[i]) <= tolerance*math.Abs(b[i])+floor:
		case floor > 0x1p-126 && math.Abs(a[i]-b[i]) <= floor: // 0 is near, too
		default:
			return i
		}
	}
	return -1
}

var hostCases []hostCase

func init() {
	for _, op := range []string{
		"Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Sqrt", "Reciprocal", "Exp", "Log", "Erf", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan",
		"Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", "Mish", "LeakyRelu", "ThresholdedRelu",
		"Elu", "Celu", "Selu", "Swish", "HardSigmoid", "HardSwish", "Gelu", "Shrink",
	} {
		hostCases = append(hostCases, hostCase{op: op, in: tensors(oddities(graph.Float32))})
	}
	for _, op := range []string{"IsNaN", "IsInf"} {
		hostCases = append(hostCases, hostCase{op: op, in: tensors(oddities(graph.Float64)), to: graph.Bool})
	}
	for _, op := range []string{"Add", "Mul", "Div", "Min", "Max", "Pow"} {
		hostCases = append(hostCases, hostCase{op: op, in: pairs(oddities(graph.Float32), oddities(graph.Float32))})
	}
	for _, op := range []string{"Equal", "Less", "GreaterOrEqual"} {
		for _, d := range []graph.DType{graph.Float32, graph.Int64, graph.Uint64, graph.Bool} {
			hostCases = append(hostCases, hostCase{op: op, in: pairs(oddities(d), oddities(d)), to: graph.Bool})
		}
	}
	for _, op := range []string{"And", "Xor"} {
		hostCases = append(hostCases, hostCase{op: op, in: pairs(oddities(graph.Bool), oddities(graph.Bool))})
	}
	for _, truncated := range []int64{0, 1} {
		for _, d := range []graph.DType{graph.Float32, graph.Int8, graph.Int32, graph.Uint64} {
			hostCases = append(hostCases, hostCase{op: "Mod", attrs: attrs(whole("fmod", truncated)), in: pairs(oddities(d), oddities(d))})
		}
	}
	for _, d := range []graph.DType{graph.Int8, graph.Uint16, graph.Int32, graph.Int64, graph.Uint64} {
		for _, op := range []string{"Add", "Mul", "Div"} {
			hostCases = append(hostCases, hostCase{op: op, in: pairs(oddities(d), oddities(d))})
		}
		for _, direction := range []string{"LEFT", "RIGHT"} {
			hostCases = append(hostCases, hostCase{op: "BitShift", attrs: attrs(text("direction", direction)), in: pairs(oddities(d), oddities(d))})
		}
		hostCases = append(hostCases, hostCase{op: "Shrink", attrs: attrs(real("lambd", 3), real("bias", 1.5)), in: tensors(oddities(d))})
	}
	for _, d := range []graph.DType{graph.Int8, graph.Int64} {
		hostCases = append(hostCases, hostCase{op: "Neg", in: tensors(oddities(d))}, hostCase{op: "Abs", in: tensors(oddities(d))})
	}
	for _, d := range []graph.DType{graph.Int32, graph.Int64} {
		hostCases = append(hostCases, hostCase{op: "Pow", in: pairs(oddities(d), oddities(d))})
	}
	types := []graph.DType{
		graph.Float32, graph.Float64, graph.Float16, graph.BFloat16, graph.Bool,
		graph.Int8, graph.Uint8, graph.Int16, graph.Uint16, graph.Int32, graph.Uint32, graph.Int64, graph.Uint64,
	}
	for _, from := range []graph.DType{graph.Float32, graph.Uint64, graph.Int64, graph.Float64, graph.Float16, graph.Bool} {
		for _, to := range types {
			// All other pairs take the ways of these.
			if from != graph.Float32 && from != graph.Uint64 && !slices.Contains([]graph.DType{graph.Float16, graph.Float32, graph.Int8, graph.Uint64}, to) {
				continue
			}
			hostCases = append(hostCases, hostCase{op: "Cast", in: tensors(oddities(from)), to: to})
		}
	}
	scale, zero := blank(graph.Float32), blank(graph.Int8)
	scale.Fill(0.02)
	zero.Fill(-5)
	bounds := tensors(oddities(graph.Float32), blank(graph.Float32), blank(graph.Float32))
	bounds[1].Fill(-0.5)
	bounds[2].Fill(2)
	slopes := blank(graph.Float32, 3)
	slopes.Fill(-2)
	image := blank(graph.Float32, 2, 3, 4, 5)
	for i := range image.Len() {
		unsafe.Slice((*float32)(image.At), image.Len())[i] = float32(i) - 50.25
	}
	small := blank(graph.Float8E5M2, 7, 1)
	copy(content(small), "\x00\x01\x3c\x7b\x7c\x7d\xff")
	hostCases = append(hostCases,
		hostCase{op: "Expand", in: tensors(small, blank(graph.Int64, 2)), shape: []int{7, 9}},
		hostCase{op: "QuantizeLinear", in: tensors(oddities(graph.Float32), scale, zero), to: graph.Int8},
		hostCase{op: "Clip", in: bounds},
		hostCase{op: "Sub", version: 6, attrs: attrs(whole("broadcast", 1), whole("axis", 1)), in: tensors(image, slopes)},
		hostCase{op: "Mul", version: 1, attrs: attrs(whole("broadcast", 1), whole("axis", -3)), in: tensors(image, slopes)},
		hostCase{op: "Less", version: 1, attrs: attrs(whole("broadcast", 1), whole("axis", 1)), in: tensors(image, slopes), to: graph.Bool},
		hostCase{op: "PRelu", version: 6, in: tensors(image, slopes)},
	)
}

func tensors(list ...*form.Tensor) []*form.Tensor { return list }
