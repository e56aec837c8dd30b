package autodiff

import (
	"regexp"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestCastsAreRepeated: the backward pass widens again what was widened, and narrows again
// what it reads the wider tensor of anyway.
func TestCastsAreRepeated(t *testing.T) {
	for _, k := range []struct {
		name           string
		build          func(b *builder, x ID) ID
		saved, without string
	}{
		{
			"an operand that was widened",
			func(b *builder, x ID) ID {
				return b.op("sine", "Sin", nil, b.op("wide", "Cast", attrs{"to": graph.Float32}, b.op("half", "Cast", attrs{"to": graph.BFloat16}, x)))
			},
			"half", "wide",
		},
		{
			"a result that was narrowed, and is read wide, too",
			func(b *builder, x ID) ID {
				half := b.op("half", "Cast", attrs{"to": graph.BFloat16}, x)
				narrow := b.op("narrow", "Cast", attrs{"to": graph.BFloat16}, b.op("soft", "Softmax", attrs{"axis": -1}, x))
				return b.op("wide", "Cast", attrs{"to": graph.Float32}, b.op("product", "Mul", nil, half, narrow))
			},
			"half soft", "half narrow soft",
		},
		{
			"a result that is read narrow alone",
			func(b *builder, x ID) ID {
				half := b.op("half", "Cast", attrs{"to": graph.BFloat16}, x)
				narrow := b.op("narrow", "Cast", attrs{"to": graph.BFloat16}, b.op("twice", "Add", nil, x, x))
				return b.op("wide", "Cast", attrs{"to": graph.Float32}, b.op("product", "Mul", nil, half, narrow))
			},
			"half narrow", "half narrow",
		},
	} {
		t.Run(k.name, func(t *testing.T) {
			read := func(noLean ...string) string {
				b := newBuilder(k.name, 18)
				x := b.op("x", "Identity", nil, b.initializer("p", b.value(operand{shape: []int{3, 8}, elem: graph.Float32})))
				b.finish(b.op("objective", "ReduceSumSquare", attrs{"keepdims": 0}, k.build(b, x)))
				step := train(t, b.m, Options{Loss: "none:objective", Trainable: regexp.MustCompile("^p$"), KeepGradients: true, NoLean: noLean})
				return savedBy(step, b.m.Graph)
			}
			if got := read(); got != k.saved {
				t.Errorf("the backward pass reads %q, expected %q", got, k.saved)
			}
			if got := read("cast"); got != k.without {
				t.Errorf("without the saving it reads %q, expected %q", got, k.without)
			}
		})
	}
}
