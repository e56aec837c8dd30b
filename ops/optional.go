package ops

import "github.com/onnxmem/onnxmem/graph"

// optional lists the operators of ai.onnx that may leave out outputs, and the
// first that they may. BatchNormalization is none of them: in training its
// running statistics must be there, and in early opsets they tell that it trains.
var optional = map[string]int{
	"Attention": 1, "Dropout": 1, "GRU": 0, "LSTM": 0, "LayerNormalization": 1, "MaxPool": 1, "RNN": 0,
}

// Optional reports whether a node may leave out an output that nobody reads, and
// computes the others all the same.
func Optional(n *graph.Node, out int) bool {
	from, known := optional[n.Op]
	return known && n.Domain == "" && n.Meaning.Known && out >= from
}

// Depends reports whether an output of a node depends on the elements of an input.
// BatchNormalization in training does not normalise with the running statistics
// that it reads.
func Depends(n *graph.Node, out, in int) bool {
	if n.Op != "BatchNormalization" || n.Domain != "" || out != 0 || in < 3 {
		return true
	}
	training := n.Attr("training_mode")
	return training == nil || training.Int == 0
}

// Seeded reports whether a node draws its random numbers from a seed of its own: it
// draws the same again when it runs again in one run of the graph.
func Seeded(n *graph.Node) bool {
	op := Lookup(n.Domain, n.Op)
	return n.Domain == "" && op != nil && n.Attr("seed") != nil && n.Meaning.Known && (op.Random || n.Op == "Dropout")
}
