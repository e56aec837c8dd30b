package gpu

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/cuda/kernels"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// generated is the source of the elementwise kernels of a session that are not ready
// yet: one function for each distinct computation. Sums and products are not contracted
// to fused ones, so nodes that share a kernel have the bits of nodes that do not.
type generated struct {
	source    *cuda.Source
	functions map[string]string // by name
}

// add returns the kernel with a body, which it adds if it is new.
func (k *Kernels) add(signature, body string) cuda.Kernel {
	if k.generated == nil {
		headers := kernels.Headers()
		k.generated = &generated{
			source:    &cuda.Source{Name: "generated.cu", Headers: headers, Options: []string{"--fmad=false"}},
			functions: map[string]string{},
		}
	}
	sum := sha256.Sum256([]byte(signature + body))
	name := "e" + hex.EncodeToString(sum[:8])
	k.generated.functions[name] = fmt.Sprintf("KERNEL(%s, (%s)) {\n%s}\n", name, signature, body)
	return cuda.Kernel{Source: k.generated.source, Name: name}
}

// finish writes the source.
func (g *generated) finish() {
	if g == nil {
		return
	}
	var names []string
	for name := range g.functions {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	b.WriteString("#include \"elementwise.cuh\"\n")
	for _, name := range names {
		b.WriteString(g.functions[name])
	}
	g.source.Text = b.String()
}

// expression computes one element of the outputs of one or more elementwise nodes from
// the input elements at its place, after broadcasting. All outputs have its shape.
type expression struct {
	n      *Node
	shape  []int
	in     []*kernel.Tensor
	values map[*kernel.Tensor]string // the C variable of each tensor
	lines  []string
	out    []*kernel.Tensor
}

func newExpression(n *Node, shape []int) *expression {
	return &expression{n: n, shape: shape, values: map[*kernel.Tensor]string{}}
}

// value returns the variable that holds a tensor's element, which it loads if no earlier
// node of the expression has computed it.
func (e *expression) value(t *kernel.Tensor) (string, error) {
	if v, ok := e.values[t]; ok {
		return v, nil
	}
	if _, err := typeOf(t); err != nil {
		return "", err
	}
	v := fmt.Sprintf("a%d", len(e.in))
	e.in = append(e.in, t)
	e.values[t] = v
	return v, nil
}

// set computes a tensor's element: it has the value of a C expression, rounded to the
// tensor's dtype.
func (e *expression) set(t *kernel.Tensor, value string) error {
	name, err := typeOf(t)
	if err != nil {
		return err
	}
	v := fmt.Sprintf("v%d", len(e.lines))
	switch t.Type {
	case graph.Float16:
		value = "widen(narrow_f16(" + value + "))"
	case graph.BFloat16:
		value = "widen(narrow_bf16(" + value + "))"
	}
	e.lines = append(e.lines, fmt.Sprintf("Compute<%s> %s = %s;", name, v, value))
	e.values[t] = v
	return nil
}

// store makes the kernel write a tensor that set has computed.
func (e *expression) store(t *kernel.Tensor) { e.out = append(e.out, t) }

// Numbers in C.

func floatLiteral(x float64, t graph.DType) string {
	if t == graph.Float64 {
		return fmt.Sprintf("__longlong_as_double(0x%016xll)", math.Float64bits(x))
	}
	return fmt.Sprintf("__int_as_float(0x%08x)", math.Float32bits(float32(x)))
}

// operandKind says how a kernel finds the element of an operand.
type operandKind int

const (
	flat    operandKind = iota // at the same index as that of the output
	single                     // it has one element
	strided                    // by strides along the axes of the output
)

// operand is an input of an expression in the shape of the outputs.
type operand struct {
	t       *kernel.Tensor
	kind    operandKind
	strides []int // along the expression's axes
}

// emit appends the launch of the kernel to the node.
func (e *expression) emit() error {
	list := make([]operand, len(e.in))
	for i, t := range e.in {
		list[i] = operand{t: t, strides: stridesIn(t.Shape, e.shape)}
	}
	axes, list := collapse(e.shape, list)
	count := 1
	for _, n := range axes {
		count *= n
	}
	index, width := "u32", 4
	if count >= 1<<31 {
		index, width = "u64", 8
	}
	var params, loads []string
	var ptrs []driver.Ptr
	for i, t := range e.out {
		p, err := e.n.at(t)
		if err != nil {
			return err
		}
		ptrs = append(ptrs, p)
		params = append(params, fmt.Sprintf("%s *o%d", cType[t.Type], i))
	}
	var places []string // computes the index of each strided operand
	numbers := []int{count}
	for i, o := range list {
		p, err := e.n.at(o.t)
		if err != nil {
			return err
		}
		ptrs = append(ptrs, p)
		name := cType[o.t.Type]
		params = append(params, fmt.Sprintf("const %s *p%d", name, i))
		at := "i"
		switch o.kind {
		case single:
			at = "0"
		case strided:
			at = fmt.Sprintf("x%d", i)
			places = append(places, at)
		}
		loads = append(loads, fmt.Sprintf("Compute<%s> a%d = load(p%d + %s);", name, i, i, at))
	}
	if len(places) > 0 {
		numbers = append(numbers, axes...)
		for _, o := range list {
			if o.kind == strided {
				numbers = append(numbers, o.strides...)
			}
		}
	}
	params = append(params, fmt.Sprintf("Numbers<%s, %d> s", index, len(numbers)))
	var b strings.Builder
	fmt.Fprintf(&b, "\tfor (%s i = blockIdx.x * blockDim.x + threadIdx.x; i < s.v[0]; i += gridDim.x * blockDim.x) {\n", index)
	if len(places) > 0 {
		fmt.Fprintf(&b, "\t\t%s q = i, c", index)
		for _, x := range places {
			fmt.Fprintf(&b, ", %s = 0", x)
		}
		b.WriteString(";\n")
		for a := len(axes) - 1; a >= 0; a-- {
			if a > 0 {
				fmt.Fprintf(&b, "\t\tc = q %% s.v[%d]; q /= s.v[%d];", 1+a, 1+a)
			} else {
				b.WriteString("\t\tc = q;")
			}
			for k, x := range places {
				fmt.Fprintf(&b, " %s += c * s.v[%d];", x, 1+(1+k)*len(axes)+a)
			}
			b.WriteString("\n")
		}
	}
	for _, line := range append(loads, e.lines...) {
		fmt.Fprintf(&b, "\t\t%s\n", line)
	}
	for i, t := range e.out {
		fmt.Fprintf(&b, "\t\tstore(o%d + i, %s);\n", i, e.values[t])
	}
	b.WriteString("\t}\n")
	args := make([]any, 0, len(ptrs)+1)
	for _, p := range ptrs {
		args = append(args, p)
	}
	args = append(args, integers(numbers, width))
	return e.n.launch(e.n.k.add(strings.Join(params, ", "), b.String()), blocksFor(count), threadsPerBlock, args...)
}

// integers returns an array of numbers of a width in bytes, as a parameter.
func integers(list []int, width int) any {
	if width == 8 {
		a := reflect.New(reflect.ArrayOf(len(list), reflect.TypeFor[int64]())).Elem()
		for i, v := range list {
			a.Index(i).SetInt(int64(v))
		}
		return a.Interface()
	}
	a := reflect.New(reflect.ArrayOf(len(list), reflect.TypeFor[int32]())).Elem()
	for i, v := range list {
		a.Index(i).SetInt(int64(v))
	}
	return a.Interface()
}

// stridesIn returns the strides, in elements, of a tensor along the axes of a shape that
// it is broadcast to; 0 along axes that it is repeated along.
func stridesIn(from, to []int) []int {
	strides := make([]int, len(to))
	step := 1
	for i := len(from) - 1; i >= 0; i-- {
		if from[i] != 1 {
			strides[i+len(to)-len(from)] = step
		}
		step *= from[i]
	}
	return strides
}

// collapse merges neighbouring axes that all operands run through as through one, drops
// axes of length 1, and finds the kind of each operand.
func collapse(shape []int, list []operand) ([]int, []operand) {
	var axes []int
	merged := make([]operand, len(list))
	for i, o := range list {
		merged[i] = operand{t: o.t}
	}
	for a := len(shape) - 1; a >= 0; a-- {
		if shape[a] == 1 {
			continue
		}
		joins := len(axes) > 0
		for i, o := range list {
			joins = joins && o.strides[a] == merged[i].strides[0]*axes[0]
		}
		if joins {
			axes[0] *= shape[a]
			continue
		}
		axes = slices.Insert(axes, 0, shape[a])
		for i, o := range list {
			merged[i].strides = slices.Insert(merged[i].strides, 0, o.strides[a])
		}
	}
	if len(axes) == 0 {
		axes = []int{1}
		for i := range merged {
			merged[i].strides = []int{0}
		}
	}
	for i := range merged {
		merged[i].kind = kindOf(merged[i].strides, axes)
	}
	return axes, merged
}

// kindOf finds the kind of an operand.
func kindOf(strides, axes []int) operandKind {
	if !slices.ContainsFunc(strides, func(s int) bool { return s != 0 }) {
		return single
	}
	step := 1
	for a := len(axes) - 1; a >= 0; a-- {
		if strides[a] != step {
			return strided
		}
		step *= axes[a]
	}
	return flat
}
