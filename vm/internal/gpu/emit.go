package gpu

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// perThread is the number of consecutive elements that a thread of a generated kernel
// computes at once: 16 bytes of the common dtypes.
const perThread = 4

// narrowIndices is the number of elements from which on indices have 64 bits. Tests lower
// it.
var narrowIndices = 1 << 31

// mostParams bounds the bytes of a kernel's parameters, which the driver limits to 4,096.
const mostParams = 4000

// body is the source of a generated kernel as it grows, with the numbers that it reads.
type body struct {
	strings.Builder
	index   string // type of indices
	numbers []int  // s.v of the kernel; the first is the number of elements
}

func (b *body) linef(depth int, format string, args ...any) {
	b.WriteString(strings.Repeat("\t", depth))
	fmt.Fprintf(b, format, args...)
	b.WriteByte('\n')
}

// number returns the name of a number.
func (b *body) number(v int) string {
	b.numbers = append(b.numbers, v)
	return fmt.Sprintf("s.v[%d]", len(b.numbers)-1)
}

// emit appends the launch of the kernel to the node. Each thread takes four consecutive
// elements, and loads and stores those of an operand that are consecutive, too, at once,
// unless the tensor is a part of another one and begins between two such fours. If the
// last axis has a multiple of four elements, then four lie in one row, and the strided
// operands' place is computed once for them.
func (e *expression) emit() error {
	list := make([]operand, len(e.in))
	for i, v := range e.in {
		list[i] = operand{t: v.t, strides: stridesIn(v.shape, e.shape)}
	}
	axes, list := collapse(e.shape, list)
	n := count(axes)
	b := &body{index: "u32", numbers: []int{n}}
	width := 4
	if n >= narrowIndices {
		b.index, width = "u64", 8
	}
	at, err := e.addresses(list)
	if err != nil {
		return err
	}
	rows := axes[len(axes)-1]%perThread == 0

	for i, o := range list {
		if o.kind == single {
			b.linef(1, "const Compute<%s> a%d = load(p%d);", cType[o.t.Type], i, i)
		}
	}
	b.linef(1, "for (%s i = (%s)%d * (blockIdx.x * blockDim.x + threadIdx.x); i < s.v[0]; i += (%s)%d * (gridDim.x * blockDim.x)) {", b.index, b.index, perThread, b.index, perThread)
	b.linef(2, "const %s m = s.v[0] - i;", b.index)
	if rows {
		b.places(2, "i", axes, list)
	}
	for i, o := range list {
		name := cType[o.t.Type]
		switch {
		case o.kind == flat:
			b.linef(2, "const Four<%s> q%d = %s(p%d + i, m);", name, i, at.load[i], i)
		case o.kind == strided && rows && o.strides[len(axes)-1] == 1:
			b.linef(2, "const Four<%s> q%d = %s(p%d + x%d, m);", name, i, at.load[i], i, i)
		case o.kind == strided && rows:
			b.linef(2, "const Compute<%s> a%d = load(p%d + x%d);", name, i, i, i)
		}
	}
	for i, t := range e.out {
		b.linef(2, "Four<%s> r%d;", cType[t.Type], i)
	}
	b.WriteString("#pragma unroll\n")
	b.linef(2, "for (int k = 0; k < %d; k++) {", perThread)
	if !rows {
		b.places(3, "i + (k < m ? k : 0)", axes, list)
	}
	for i, o := range list {
		name := cType[o.t.Type]
		switch {
		case o.kind == flat, o.kind == strided && rows && o.strides[len(axes)-1] == 1:
			b.linef(3, "const Compute<%s> a%d = load(q%d.v + k);", name, i, i)
		case o.kind == strided && !rows:
			b.linef(3, "const Compute<%s> a%d = load(p%d + x%d);", name, i, i, i)
		}
	}
	for _, line := range e.lines {
		b.linef(3, "const %s", line)
	}
	for i, t := range e.out {
		b.linef(3, "store(r%d.v + k, %s);", i, e.values[viewKey{t: t}])
	}
	b.linef(2, "}")
	b.linef(2, "LOADED;")
	for i := range e.out {
		b.linef(2, "%s(o%d + i, r%d, m);", at.store[i], i, i)
	}
	b.linef(1, "}")

	if bytes := 8*len(at.args) + width*len(b.numbers); bytes > mostParams {
		return unsupportedf("%d operands of up to %d axes", len(at.args), len(axes))
	}
	params := append(at.params, fmt.Sprintf("Numbers<%s, %d> s", b.index, len(b.numbers)))
	args := append(at.args, unsigned(b.numbers, width))
	threads := threadsFor(n)
	blocks := min((n+perThread*threads-1)/(perThread*threads), 1<<16)
	return e.n.launch(e.n.k.add(strings.Join(params, ", "), b.String()), blocks, threads, args...)
}

// threadsFor is the size of the blocks of a kernel of n elements. Small ones spread a
// small tensor over more of the device's processors.
func threadsFor(n int) int {
	if n < 1<<18 {
		return threadsPerBlock / 4
	}
	return threadsPerBlock
}

// pointers are the operands of a kernel: first the outputs, then the inputs.
type pointers struct {
	params      []string // their declarations in C
	args        []any    // addresses
	load, store []string // the functions that load four elements of each input and store those of each output
}

// addresses finds where the operands lie.
func (e *expression) addresses(list []operand) (*pointers, error) {
	at := &pointers{}
	add := func(t *kernel.Tensor, declaration string) (apart string, err error) {
		p, err := e.n.at(t)
		if err != nil {
			return "", err
		}
		at.params = append(at.params, declaration)
		at.args = append(at.args, p)
		if p%driver.Ptr(min(16, perThread*t.Bytes()/t.Len())) != 0 {
			apart = "_apart"
		}
		return apart, nil
	}
	for i, t := range e.out {
		apart, err := add(t, fmt.Sprintf("%s *o%d", cType[t.Type], i))
		if err != nil {
			return nil, err
		}
		at.store = append(at.store, "put"+apart)
	}
	for i, o := range list {
		apart, err := add(o.t, fmt.Sprintf("const %s *p%d", cType[o.t.Type], i))
		if err != nil {
			return nil, err
		}
		at.load = append(at.load, "four"+apart)
	}
	return at, nil
}

// divisor returns the numbers by which the kernel divides an index by d.
func (b *body) divisor(d int) string {
	if b.index == "u64" {
		return b.number(d)
	}
	multiplier, shift := division(d)
	return strings.Join([]string{b.number(d), b.number(multiplier), b.number(shift)}, ", ")
}

// places computes the indices of the strided operands, x0, x1, ..., for the output's
// index at.
func (b *body) places(depth int, at string, axes []int, list []operand) {
	if !slices.ContainsFunc(list, func(o operand) bool { return o.kind == strided }) {
		return
	}
	b.linef(depth, "%s rest = %s, c;", b.index, at)
	for i, o := range list {
		if o.kind == strided {
			b.linef(depth, "%s x%d = 0;", b.index, i)
		}
	}
	for a := len(axes) - 1; a >= 0; a-- {
		if a > 0 {
			b.linef(depth, "c = cut(rest, %s);", b.divisor(axes[a]))
		} else {
			b.linef(depth, "c = rest;")
		}
		for i, o := range list {
			switch {
			case o.kind != strided || o.strides[a] == 0:
			case o.strides[a] == 1:
				b.linef(depth, "x%d += c;", i)
			default:
				b.linef(depth, "x%d += c * %s;", i, b.number(o.strides[a]))
			}
		}
	}
}

// unsigned returns an array of numbers of a width in bytes, as a parameter.
func unsigned(list []int, width int) any {
	element := reflect.TypeFor[uint32]()
	if width == 8 {
		element = reflect.TypeFor[uint64]()
	}
	a := reflect.New(reflect.ArrayOf(len(list), element)).Elem()
	for i, v := range list {
		a.Index(i).SetUint(uint64(v))
	}
	return a.Interface()
}
