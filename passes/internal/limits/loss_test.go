package limits

import (
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
)

// wordStep returns a step of training a network that scores 512 words for each token, in elements of the
// type from, cast to the type to.
func wordStep(t *testing.T, tokens, hidden int, from, to graph.DType) *graph.Model {
	t.Helper()
	b := graph.NewBuilder("words", 20)
	cast := func(name string, x graph.TensorID, to graph.DType) graph.TensorID {
		return b.Add(&graph.Node{Name: name, Op: "Cast", Inputs: []graph.TensorID{x}, Attrs: []*graph.Attr{{Name: "to", Type: graph.AttrInt, Int: int64(to)}}}, name)[0]
	}
	weight := func(name string, columns int) graph.TensorID {
		return cast(name+".cast", b.Floats(name, []int64{int64(hidden), int64(columns)}, make([]float32, hidden*columns)), from)
	}
	x := b.Input("x", graph.TensorOf(from, graph.Dim(tokens), graph.Dim(hidden)))
	x = b.Node("Tanh", "tanh", b.Node("MatMul", "layer", x, weight("layer.weight", hidden)))
	b.Output(cast("scores", b.Node("MatMul", "head", x, weight("head.weight", 512)), to))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	step, err := autodiff.Train(m, autodiff.Options{Optimizer: "adam"})
	if err != nil {
		t.Fatal(err)
	}
	return step.Model
}

// The loss ends at the products of its gradient, also where a gradient of weights has as many elements as
// the scores have.
func TestPlaceOfLoss(t *testing.T) {
	length := func(tokens, hidden int) int {
		at, found := slicerOf(t, wordStep(t, tokens, hidden, graph.BFloat16, graph.Float32), false).lossPlace()
		if !found || !at.widened {
			t.Fatalf("%d tokens: no loss of widened scores: %+v", tokens, at)
		}
		return at.end - at.start
	}
	if same, other := length(128, 128), length(192, 128); same != other {
		t.Errorf("with as many tokens as columns the loss has %d nodes, else %d", same, other)
	}
}

// Only scores of 16 bits are widened in slices.
func TestWidenedScores(t *testing.T) {
	for _, c := range []struct {
		from, to graph.DType
		want     bool
	}{{graph.BFloat16, graph.Float32, true}, {graph.Float16, graph.Float64, true}, {graph.Float32, graph.Float64, false}, {graph.Float32, graph.Float32, false}} {
		m := wordStep(t, 64, 32, c.from, c.to)
		slicerOf(t, m, false) // infers types
		if at, _, found := lossStart(m.Graph); !found || at.widened != c.want {
			t.Errorf("scores in %v, loss in %v: widened: %t (found: %t), expected %t", c.from, c.to, at.widened, found, c.want)
		}
	}
}
