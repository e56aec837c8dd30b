package gpu

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// perThread is the number of consecutive elements that a thread of a generated kernel
// computes at once: 16 bytes of the common dtypes.
const perThread = 4

// narrowIndices is the number of elements from which on indices have 64 bits. Tests lower
// it.
var narrowIndices = 1 << 31

// mostParams bounds the bytes of a kernel's parameters, which the driver limits to 4,096.
const mostParams = 4000

// body is the source of a generated kernel as it grows. Each thread takes four consecutive
// elements, and loads and stores those of an operand that are consecutive, too, at once,
// unless the tensor is a part of another one and begins between two such fours.
type body struct {
	strings.Builder
	e       *expression
	axes    []int
	list    []operand
	at      *pointers
	index   string // type of indices
	numbers []int  // s.v of the kernel; the first is the number of elements
	rest    bool   // the last thread has fewer than four elements
	// rows is set if the last axis has a multiple of four elements: four lie in one row,
	// and the places of the strided operands are computed once for them.
	rows bool
}

// emit appends the launch of the kernel to the node.
func (e *expression) emit() error {
	list := make([]operand, len(e.in))
	for i, v := range e.in {
		list[i] = operand{t: v.t, strides: stridesIn(v.shape, e.shape)}
	}
	axes, list := collapse(e.shape, list)
	at, err := e.addresses(list)
	if err != nil {
		return err
	}
	n := count(axes)
	b := &body{
		e: e, axes: axes, list: list, at: at, index: "u32", numbers: []int{n},
		rest: n%perThread != 0, rows: axes[len(axes)-1]%perThread == 0,
	}
	width := 4
	if n >= narrowIndices {
		b.index, width = "u64", 8
	}
	b.write()
	if bytes := 8*len(at.args) + width*len(b.numbers); bytes > mostParams {
		return unsupportedf("%d operands of up to %d axes", len(at.args), len(axes))
	}
	k := e.n.k.add(strings.Join(append(at.params, fmt.Sprintf("Numbers<%s, %d> s", b.index, len(b.numbers))), ", "), b.String())
	threads := threadsFor(n)
	blocks := min((n+perThread*threads-1)/(perThread*threads), 1<<16)
	return e.n.launch(k, blocks, threads, append(at.args, unsigned(b.numbers, width))...)
}

// threadsFor is the size of the blocks of a kernel of n elements. Small ones spread a
// small tensor over more of the device's processors.
func threadsFor(n int) int {
	if n < 1<<18 {
		return threadsPerBlock / 4
	}
	return threadsPerBlock
}

// write writes the kernel: q are four elements of an input, a is one of them, v is a
// value, and r are four elements of an output.
func (b *body) write() {
	for i, o := range b.list {
		if o.kind == single {
			b.linef(1, "const Compute<%s> a%d = load(p%d);", cType[o.t.Type], i, i)
		}
	}
	b.linef(1, "for (%s i = (%s)%d * (blockIdx.x * blockDim.x + threadIdx.x); i < s.v[0]; i += (%s)%d * (gridDim.x * blockDim.x)) {", b.index, b.index, perThread, b.index, perThread)
	if b.rest {
		b.linef(2, "const %s m = s.v[0] - i;", b.index)
	}
	b.loads()
	for i, t := range b.e.out {
		b.linef(2, "Four<%s> r%d;", cType[t.Type], i)
	}
	b.WriteString("#pragma unroll\n")
	b.linef(2, "for (int k = 0; k < %d; k++) {", perThread)
	b.element()
	b.linef(2, "}")
	b.linef(2, "LOADED;")
	b.stores()
	b.linef(1, "}")
}

// loads loads what four elements need at once.
func (b *body) loads() {
	if b.rows {
		b.places(2, "i")
	}
	var whole, part []string
	for i, o := range b.list {
		name, index := cType[o.t.Type], "i"
		if o.kind == strided {
			index = fmt.Sprintf("x%d", i)
		}
		switch {
		case b.together(o):
			b.linef(2, "Four<%s> q%d;", name, i)
			whole = append(whole, fmt.Sprintf("q%d = %s(p%d + %s);", i, b.at.load[i], i, index))
			part = append(part, fmt.Sprintf("q%d = four_of(p%d + %s, m);", i, i, index))
		case o.kind == strided && b.rows:
			b.linef(2, "const Compute<%s> a%d = load(p%d + %s);", name, i, i, index)
		}
	}
	b.either(whole, part)
}

// together reports whether the four elements of an operand are consecutive.
func (b *body) together(o operand) bool {
	return o.kind == flat || o.kind == strided && b.rows && o.strides[len(b.axes)-1] == 1
}

// element computes element k of the four.
func (b *body) element() {
	switch {
	case b.rows:
	case b.rest:
		b.places(3, "i + (k < m ? k : 0)")
	default:
		b.places(3, "i + k")
	}
	for i, o := range b.list {
		name := cType[o.t.Type]
		switch {
		case b.together(o):
			b.linef(3, "const Compute<%s> a%d = load(q%d.v + k);", name, i, i)
		case o.kind == strided && !b.rows:
			b.linef(3, "const Compute<%s> a%d = load(p%d + x%d);", name, i, i, i)
		}
	}
	for _, line := range b.e.lines {
		b.linef(3, "const %s", line)
	}
	for i, t := range b.e.out {
		b.linef(3, "store(r%d.v + k, %s);", i, b.e.values[viewKey{t: t}])
	}
}

// stores stores four elements of the outputs.
func (b *body) stores() {
	var whole, part []string
	for i := range b.e.out {
		whole = append(whole, fmt.Sprintf("%s(o%d + i, r%d);", b.at.store[i], i, i))
		part = append(part, fmt.Sprintf("put_of(o%d + i, r%d, m);", i, i))
	}
	b.either(whole, part)
}

// either writes the lines for four elements, and, if a thread may have fewer, those for m.
func (b *body) either(whole, part []string) {
	switch {
	case len(whole) == 0:
		return
	case !b.rest:
		b.linef(2, "%s", strings.Join(whole, " "))
		return
	}
	b.linef(2, "if (m >= %d) {", perThread)
	b.linef(3, "%s", strings.Join(whole, " "))
	b.linef(2, "} else {")
	b.linef(3, "%s", strings.Join(part, " "))
	b.linef(2, "}")
}

// places computes the indices of the strided operands, x0, x1, ..., for the output's
// index at.
func (b *body) places(depth int, at string) {
	if !slices.ContainsFunc(b.list, func(o operand) bool { return o.kind == strided }) {
		return
	}
	b.linef(depth, "%s rest = %s, c;", b.index, at)
	for i, o := range b.list {
		if o.kind == strided {
			b.linef(depth, "%s x%d = 0;", b.index, i)
		}
	}
	for a := len(b.axes) - 1; a >= 0; a-- {
		if a > 0 {
			b.linef(depth, "c = cut(rest, %s);", b.divisor(b.axes[a]))
		} else {
			b.linef(depth, "c = rest;")
		}
		for i, o := range b.list {
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

// divisor returns the numbers by which the kernel divides an index by d.
func (b *body) divisor(d int) string {
	if b.index == "u64" {
		return b.number(d)
	}
	multiplier, shift := divisor(d)
	return strings.Join([]string{b.number(d), b.number(multiplier), b.number(shift)}, ", ")
}

// number returns the name of a number.
func (b *body) number(v int) string {
	b.numbers = append(b.numbers, v)
	return fmt.Sprintf("s.v[%d]", len(b.numbers)-1)
}

func (b *body) linef(depth int, format string, args ...any) {
	b.WriteString(strings.Repeat("\t", depth))
	fmt.Fprintf(b, format, args...)
	b.WriteByte('\n')
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
	add := func(t *form.Tensor, declaration string) (apart string, err error) {
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
