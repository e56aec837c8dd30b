package passes

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
)

// foldState describes what the pass fold did.
type foldState struct {
	tensors  []foldedTensor
	products []foldedProduct
	nodes    int
	peak     int64 // of the best plan without folding that a fast search finds
	total    int64

	views map[*graph.Node][]*graph.Node // of results, by the node that made them
	names map[string]bool               // of all tensors
}

// fresh returns a name that no tensor has.
func (f *foldState) fresh(name string) string {
	unique := name
	for k := 2; f.names[unique]; k++ {
		unique = fmt.Sprintf("%s.%d", name, k)
	}
	f.names[unique] = true
	return unique
}

// listed returns the names of the tensors that the plan lists as folded and of the results of
// products that it lists, and whether some of them may be in bodies. f may be nil.
func (f *foldState) listed() (names map[string]bool, bodies bool) {
	if f == nil {
		return nil, false
	}
	names = map[string]bool{}
	for _, t := range f.tensors {
		names[t.t.Name] = true
		bodies = bodies || t.at != ""
	}
	for _, p := range f.products {
		names[p.result] = true
		bodies = bodies || p.at != ""
	}
	return names, bodies
}

// foldedTensor is a new initializer.
type foldedTensor struct {
	g  *graph.Graph
	t  *graph.Tensor
	of string // the tensor of the model that it holds, if that has another name
	at string // the path of the graph, as in pathsIn: passes behind this one copy graphs
}

// folder chooses what of a model is folded.
type folder struct {
	*rules
	given   *graph.Model // that was read
	trained bool         // model is a training step
	runtime string       // as Options.Runtime
	limit   int64        // as Options.FoldLimit
	// plan returns the figures of a model. Those of one whose total is above most may be
	// lower bounds.
	plan func(m *graph.Model, most int64) (figures, error)

	model    *graph.Model // whose types have been inferred
	done     *foldState   // nil: nothing yet
	values   [][][]byte   // of all components that could be folded
	budget   *constant.Budget
	shapes   *shapes      // that never change; nil: none
	shapesOf *graph.Model // the model that has them
}

// foldedProduct is a product one of whose operands is no longer transposed.
type foldedProduct struct {
	in                 int    // the place of its graph in the list of graphsIn
	at                 string // its path, as in pathsIn, once the model stays as it is
	result, transposed string
}

// shapes holds the shapes of one graph that are the same in every run, so that what
// reads only them is a constant.
type shapes struct {
	tensors [][]int64                  // by TensorID; nil: may change
	bodies  map[graph.NodeID][]*shapes // in the order of bodiesOf
}

// product is a node that multiplies by a transposed matrix: with FoldAny a Gemm reads the
// matrix as it lies. Graphs are places in the list of graphsIn.
type product struct {
	in        int         // its graph
	node      *graph.Node // MatMul or Gemm
	from      int         // the graph of the Transpose: that of the product, or an outer one
	transpose *graph.Node
	result    *graph.Tensor
	weight    *graph.Tensor // before it is transposed
	left      bool          // it is the first operand, not the second
	fixed     bool          // the lengths of weight stand in the file
}

// bodiesOf lists the bodies of a node in the order of its attributes.
func bodiesOf(n *graph.Node) (list []*graph.Graph) {
	for _, a := range n.Bodies() {
		list = append(list, a.All()...)
	}
	return list
}

// lengths is an exact shape.
func lengths(t graph.Type) []int64 {
	shape := make([]int64, len(t.Shape))
	for i, d := range t.Shape {
		shape[i] = int64(d)
	}
	return shape
}
