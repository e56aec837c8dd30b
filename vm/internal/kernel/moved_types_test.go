package kernel

import (
	"bufio"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// movement is a node that moves elements, on codes: numbers that stand for elements of any
// type.
type movement struct {
	nodeCase
	moved []int // the inputs whose elements are moved
}

// codes are different numbers.
func codes(shape ...int) *reference.Tensor {
	t := wholes(shape)
	for i := range count(shape) {
		t.I = append(t.I, int64(i*37+5))
	}
	return t
}

// movements has a node for each operator of ONNX whose elements may be complex numbers, strings
// or numbers of 2 and 4 bits, with which nothing is computed.
var movements = []movement{
	{nodeCase{op: "Transpose", attrs: attrs(ints("perm", 2, 0, 1)), in: args(codes(3, 5, 7))}, []int{0}},
	{nodeCase{op: "Transpose", attrs: attrs(ints("perm", 1, 0)), in: args(codes(40, 33))}, []int{0}},
	{nodeCase{op: "Reshape", in: args(codes(3, 5), integerList(5, -1))}, []int{0}},
	{nodeCase{op: "Flatten", in: args(codes(3, 5, 7))}, []int{0}},
	{nodeCase{op: "Squeeze", in: args(codes(3, 1, 5))}, []int{0}},
	{nodeCase{op: "Unsqueeze", in: args(codes(3, 5), integerList(1))}, []int{0}},
	{nodeCase{op: "Identity", in: args(codes(3, 5))}, []int{0}},
	{nodeCase{op: "Pad", in: args(codes(3, 5), integerList(1, 2, 0, 1), wholes([]int{}, 3))}, []int{0, 2}},
	{nodeCase{op: "Pad", in: args(codes(3, 5), integerList(1, 2, 0, 1))}, []int{0}},
	{nodeCase{op: "Pad", attrs: attrs(text("mode", "reflect")), in: args(codes(3, 5), integerList(1, 2, 0, 1))}, []int{0}},
	{nodeCase{op: "Pad", version: 19, attrs: attrs(text("mode", "wrap")), in: args(codes(3, 5), integerList(1, 2, 0, 1))}, []int{0}},
	{nodeCase{op: "Concat", attrs: attrs(whole1("axis", 1)), in: args(codes(3, 5), codes(3, 2), codes(3, 3))}, []int{0, 1, 2}},
	{nodeCase{op: "Split", attrs: attrs(whole1("axis", 1)), in: args(codes(3, 5), integerList(3, 2)), outputs: 2}, []int{0}},
	{nodeCase{op: "Slice", in: args(codes(7, 5), integerList(5, 0), integerList(1, 9), integerList(0, 1), integerList(-2, 3))}, []int{0}},
	{nodeCase{op: "Expand", in: args(codes(3, 1, 5), integerList(2, 3, 4, 5))}, []int{0}},
	{nodeCase{op: "Tile", in: args(codes(3, 5), integerList(2, 3))}, []int{0}},
	{nodeCase{op: "Gather", attrs: attrs(whole1("axis", 1)), in: args(codes(3, 5, 3), wholes([]int{2, 2}, 4, -1, 0, 2))}, []int{0}},
	{nodeCase{op: "GatherElements", attrs: attrs(whole1("axis", 1)), in: args(codes(3, 5), wholes([]int{3, 2}, 4, -1, 0, 2, 1, 1))}, []int{0}},
	{nodeCase{op: "GatherND", in: args(codes(3, 5, 2), wholes([]int{3, 2}, 2, 4, 0, -1, 1, 2))}, []int{0}},
	{nodeCase{op: "ScatterElements", attrs: attrs(whole1("axis", 1)), in: args(codes(3, 5), wholes([]int{3, 2}, 4, -2, 0, 2, 1, 3), codes(3, 2))}, []int{0, 2}},
	{nodeCase{op: "Scatter", version: 9, attrs: attrs(whole1("axis", 1)), in: args(codes(3, 5), wholes([]int{3, 2}, 4, 3, 0, 2, 1, 3), codes(3, 2))}, []int{0, 2}},
	{nodeCase{op: "ScatterND", in: args(codes(3, 5), wholes([]int{2, 1}, 2, 0), codes(2, 5))}, []int{0, 2}},
	{nodeCase{op: "TensorScatter", version: 24, in: args(codes(2, 3, 5), codes(2, 1, 5), integerList(2, 0))}, []int{0, 1}},
	{nodeCase{op: "DepthToSpace", attrs: attrs(whole1("blocksize", 2)), in: args(codes(2, 8, 3, 5))}, []int{0}},
	{nodeCase{op: "SpaceToDepth", attrs: attrs(whole1("blocksize", 2)), in: args(codes(2, 3, 4, 6))}, []int{0}},
	{nodeCase{op: "ReverseSequence", in: args(codes(5, 3, 2), integerList(5, 2, 3))}, []int{0}},
	{nodeCase{op: "Trilu", in: args(codes(3, 5), wholes([]int{}, 1))}, []int{0}},
	{nodeCase{op: "CenterCropPad", in: args(codes(3, 6), integerList(5, 3))}, []int{0}},
	{nodeCase{op: "Where", in: args(flags(3, 5), codes(3, 5), codes(5))}, []int{1, 2}},
	{nodeCase{op: "Resize", in: args(codes(1, 2, 3, 5), nil, realList(1, 1, 2, 1.7))}, []int{0}},
	{nodeCase{op: "Resize", attrs: attrs(text("nearest_mode", "floor")), in: args(codes(3, 5), nil, realList(1.5, 0.6))}, []int{0}},
	{nodeCase{op: "Upsample", version: 9, in: args(codes(1, 2, 3, 5), realList(1, 1, 2, 3))}, []int{0}},
	{nodeCase{op: "ConstantOfShape", in: args(integerList(3, 5))}, nil},
	{nodeCase{op: "Shape", in: args(codes(3, 5))}, []int{0}},
	{nodeCase{op: "Size", in: args(codes(3, 5))}, []int{0}},
	{nodeCase{op: "OneHot", in: args(integerList(1, 0, 2), wholes([]int{}, 4), integerList(3, 9))}, []int{2}},
}

// unmoved lists operators of such types that no case is for, and why.
var unmoved = map[string]string{
	"BitCast": "copies", "Cast": "has tests of its own", "CastLike": "as Cast", "Constant": "has no kernel", "QuantizeLinear": "computes", "DequantizeLinear": "computes",
	"Col2Im": "adds up", "GridSample": "computes positions", "Unique": "compares", "NonZero": "compares with 0", "Compress": "finds the shape of its result: see TestMovedByChoice",
	"If": "has a body", "Loop": "has a body", "Scan": "has a body", "DynamicSlice": "experimental", "RandomNormalLike": "draws", "RandomUniformLike": "draws",
	"ConcatFromSequence": "takes a sequence", "SequenceAt": "takes a sequence", "SequenceConstruct": "makes a sequence", "SequenceInsert": "takes a sequence", "SplitToSequence": "makes a sequence",
}

// permittedTypes reads the element types of operators of ai.onnx from the table of signatures,
// by symbol.
func permittedTypes(t *testing.T) map[string]map[string][]string {
	t.Helper()
	f, err := os.Open("../../../ops/signatures.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, op := map[string]map[string][]string{}, ""
	for s := bufio.NewScanner(f); s.Scan(); {
		line := s.Text()
		if name, ok := strings.CutPrefix(line, "ai.onnx "); ok {
			op = name
			all[op] = map[string][]string{}
		} else if !strings.HasPrefix(line, " ") {
			op = ""
		} else if words := strings.Fields(line); op != "" && words[0] != ":" && !slices.Contains(words, ">") {
			for _, w := range words[1:] {
				name, _, _ := strings.Cut(w, "@")
				all[op][words[0]] = append(all[op][words[0]], name)
			}
		}
	}
	return all
}

// TestMovedTypes: an operator that only moves elements moves those of every type that ONNX
// permits, bit by bit, as the plain evaluator moves numbers.
func TestMovedTypes(t *testing.T) {
	byName := map[string]graph.DType{}
	for d := graph.DType(1); d.Valid(); d++ {
		byName[d.String()] = d
	}
	permitted, cases := permittedTypes(t), map[string]bool{}
	for i := range movements {
		k := &movements[i]
		cases[k.op] = true
		var types []string
		for _, symbol := range []string{"T", "T1", "T2", "T3"} {
			if list := permitted[k.op][symbol]; slices.Contains(list, "int2") || slices.Contains(list, "complex64") || slices.Contains(list, "int4") {
				types = list
			}
		}
		if len(types) == 0 {
			t.Errorf("%s: found no types in the table of signatures", k.op)
		}
		for _, name := range types {
			t.Run(k.op+"/"+name, func(t *testing.T) {
				if byName[name] == graph.Undefined {
					t.Fatalf("no such dtype")
				}
				k.moves(t, byName[name])
			})
		}
	}
	for _, op := range slices.Sorted(maps.Keys(permitted)) {
		for _, list := range permitted[op] {
			_, without := unmoved[op]
			if (slices.Contains(list, "complex64") || slices.Contains(list, "int4")) && !cases[op] && !without {
				t.Errorf("%s: no case, though ONNX permits it for all kinds of elements", op)
			}
		}
	}
	for op := range unmoved {
		if cases[op] || permitted[op] == nil {
			t.Errorf("%s is listed as without a case, and has one, or does not exist", op)
		}
	}
}

// moves runs the node with elements of a dtype that have the codes, and compares the codes of
// the results.
func (k *movement) moves(t *testing.T, d graph.DType) {
	t.Helper()
	n, want, err := k.node(k.in)
	if err != nil {
		t.Fatal(err)
	}
	if k.op == "ConstantOfShape" {
		n.Attrs = attrs(&graph.Attr{Name: "value", Type: graph.AttrTensor, Tensor: &graph.Data{Type: d, Dims: []int64{1}, Raw: slices.Repeat([]byte{3}, max(form.ElementBits(d), 8)/8)}})
	}
	given := make([]*Tensor, len(k.in))
	for i, x := range k.in {
		switch {
		case x == nil:
		case slices.Contains(k.moved, i):
			given[i] = coded(x, d)
		default:
			given[i] = store(x, graph.Float32)
			given[i].Const = true
		}
	}
	c := &Invocation{Call: form.Call{Node: n, Version: k.opset(), In: given, Runtime: alone{}}}
	for _, w := range want {
		e := d
		if k.op == "Shape" || k.op == "Size" {
			e = graph.Int64
		}
		c.Out = append(c.Out, blank(e, w.Shape))
	}
	if err := prepareAndRun(c, Lookup(n.Domain, n.Op), 2); err != nil {
		t.Fatal(err)
	}
	for o, w := range want {
		if k.op == "ConstantOfShape" {
			w = &reference.Tensor{Type: graph.Int64, Shape: w.Shape, I: make([]int64, len(w.I)+len(w.F))}
			for i := range w.I {
				w.I[i] = 3
			}
		}
		expected := coded(w, c.Out[o].Type)
		if k.op == "Shape" || k.op == "Size" {
			expected = store(w, graph.Int64)
		}
		if k.op == "ConstantOfShape" && form.ElementBits(d) >= 8 {
			for i := range raw(expected) {
				raw(expected)[i] = 3
			}
		}
		if got := raw(c.Out[o]); string(got) != string(raw(expected)) {
			t.Fatalf("output %d of %v%v: got bytes %v, want %v", o, d, w.Shape, got, raw(expected))
		}
	}
}

// choosing is a runtime in which a kernel finds the shape of output 0.
type choosing struct {
	alone
	out *Tensor
}

func (r choosing) Resize(_ int, shape []int) error {
	r.out.Shape = shape
	return nil
}

// TestMovedByChoice: Compress keeps elements of every type.
func TestMovedByChoice(t *testing.T) {
	x := codes(3, 2)
	for d := graph.DType(1); d.Valid(); d++ {
		if form.ElementBits(d) < 8 {
			continue // not permitted
		}
		out := blank(d, x.Shape)
		out.Shape = nil
		n := &graph.Node{Op: "Compress", Attrs: attrs(whole1("axis", 0))}
		chosen := store(&reference.Tensor{Type: graph.Bool, Shape: []int{3}, I: []int64{1, 0, 1}}, d)
		c := &Invocation{Call: form.Call{Node: n, Version: 18, In: []*Tensor{coded(x, d), chosen}, Out: []*Tensor{out}, Runtime: choosing{out: out}}}
		if err := prepareAndRun(c, Lookup("", "Compress"), 1); err != nil {
			t.Errorf("%v: %v", d, err)
			continue
		}
		want := coded(wholes([]int{2, 2}, x.I[0], x.I[1], x.I[4], x.I[5]), d)
		if !slices.Equal(out.Shape, []int{2, 2}) || string(raw(out)) != string(raw(want)) {
			t.Errorf("%v: got %v %v, want [2 2] %v", d, out.Shape, raw(out), raw(want))
		}
	}
}

// coded returns a tensor of a dtype whose elements have the given codes in all their bytes.
func coded(x *reference.Tensor, d graph.DType) *Tensor {
	t := blank(d, x.Shape)
	b, bits := raw(t), form.ElementBits(d)
	clear(b)
	for i, v := range x.I {
		switch {
		case d == graph.Bool:
			b[i] = byte(v & 1)
		case bits < 8:
			b[i*bits/8] |= byte(v) & (1<<bits - 1) << (i * bits % 8)
		default:
			for k := range bits / 8 {
				if v != 0 {
					b[i*bits/8+k] = byte(v + int64(k))
				}
			}
		}
	}
	return t
}
