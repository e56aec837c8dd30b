package autodiff

import (
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/internal/reference"
)

// TestSequenceGradients: a split, reordered and stacked by way of sequences has the loss
// and the gradients of the same model with Split and Concat.
func TestSequenceGradients(t *testing.T) {
	build := func(sequences bool) *builder {
		b := newBuilder("sequences", 18)
		x := b.initializer("p0", b.value(param(5, 4)))
		lengths := b.initializer("lengths", b.value(list(2, 2, 1)))
		// The second part, twice; then the last row, without its axis, in a stack with itself doubled.
		var second, stack ID
		if sequences {
			at := func(i int64, s ID, name string) ID {
				return b.op(name, "SequenceAt", nil, s, b.initializer(name+".at", b.value(number(i))))
			}
			second = at(-2, b.op("parts", "SplitToSequence", attrs{"axis": 0}, x, lengths), "second")
			row := at(4, b.op("rows", "SplitToSequence", attrs{"axis": 0, "keepdims": 0}, x), "row")
			list := b.op("pair", "SequenceConstruct", nil, second, b.op("sum", "Add", nil, second, second))
			list = b.op("three", "SequenceInsert", nil, list, b.op("square", "Mul", nil, second, second), b.initializer("front", b.value(number(0))))
			list = b.op("two", "SequenceErase", nil, list, b.initializer("middle", b.value(number(1))))
			second = b.op("joined", "ConcatFromSequence", attrs{"axis": 1}, list)
			stack = b.op("stack", "ConcatFromSequence", attrs{"axis": -1, "new_axis": 1}, b.op("both", "SequenceConstruct", nil, row, b.op("twice", "Add", nil, row, row)))
		} else {
			second = b.node("", "Split", attrs{"axis": 0}, []ID{x, lengths}, "", "second", "")[1]
			row := b.op("row", "Gather", nil, x, b.initializer("row.at", b.value(number(4))))
			second = b.op("joined", "Concat", attrs{"axis": 1}, b.op("square", "Mul", nil, second, second), b.op("sum", "Add", nil, second, second))
			axis := b.initializer("axis", b.value(list(-1)))
			stack = b.op("stack", "Concat", attrs{"axis": 1}, b.op("a", "Unsqueeze", nil, row, axis), b.op("b", "Unsqueeze", nil, b.op("twice", "Add", nil, row, row), axis))
		}
		part := func(name string, y ID, shape ...int) ID {
			return b.op(name+".sum", "ReduceSum", attrs{"keepdims": 0}, b.op(name+".weighted", "Mul", nil, y, b.input(name+".weights", b.value(param(shape...)))))
		}
		b.finish(b.op("objective", "Add", nil, part("u", second, 2, 8), part("v", stack, 4, 2)))
		return b
	}
	plain := build(false)
	want, err := reference.Eval(plain.m, plain.feeds, "objective")
	if err != nil {
		t.Fatal(err)
	}
	b := build(true)
	step, err := Train(b.m, Options{Loss: "none:objective", Trainable: regexp.MustCompile(`^p\d$`), KeepGradients: true})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := checkGradients(t, step, b.feeds, 30)
	if v, w := got["loss"].F[0], want["objective"].F[0]; math.Abs(v-w) > 1e-9 {
		t.Errorf("loss %v, expected %v as with Split and Concat", v, w)
	}
	for _, n := range step.Model.Graph.Nodes {
		if n.Op == "SplitToSequence" || n.Op == "SequenceConstruct" || n.Op == "SequenceInsert" {
			t.Errorf("%s is still in the step", n.Op)
		}
	}
}

// TestSequenceOfDataRefused: which item is read depends on data.
func TestSequenceOfDataRefused(t *testing.T) {
	b := newBuilder("sequence of data", 18)
	x := b.initializer("p0", b.value(param(4, 3)))
	parts := b.op("parts", "SplitToSequence", attrs{"axis": 0}, x)
	y := b.op("y", "SequenceAt", nil, parts, b.input("at", b.value(number(1))))
	b.finish(b.op("objective", "ReduceSum", attrs{"keepdims": 0}, b.op("square", "Mul", nil, y, y)))
	_, err := Train(b.m, Options{Loss: "none:objective", Trainable: regexp.MustCompile(`^p\d$`)})
	if want := `operator SequenceAt has no gradient: the items of its sequence do not follow from constants`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, expected one with %q", err, want)
	}
}
