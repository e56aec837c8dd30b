package folding

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
)

// Result describes what the pass fold did.
type Result struct {
	Tensors  []FoldedTensor
	Products []FoldedProduct
	Nodes    int
	Peak     int64 // of the best plan without folding that a fast search finds
	Total    int64

	views map[*graph.Node][]*graph.Node // of results, by the node that made them
	names map[string]bool               // of all tensors
}

// fresh returns a name that no tensor has.
func (f *Result) fresh(name string) string {
	unique := name
	for k := 2; f.names[unique]; k++ {
		unique = fmt.Sprintf("%s.%d", name, k)
	}
	f.names[unique] = true
	return unique
}

// Listed returns the names of the tensors that the plan lists as folded and of the results of
// products that it lists, and whether some of them may be in bodies. f may be nil.
func (f *Result) Listed() (names map[string]bool, bodies bool) {
	if f == nil {
		return nil, false
	}
	names = map[string]bool{}
	for _, t := range f.Tensors {
		names[t.T.Name] = true
		bodies = bodies || t.At != ""
	}
	for _, p := range f.Products {
		names[p.Result] = true
		bodies = bodies || p.At != ""
	}
	return names, bodies
}

// FoldedTensor is a new initializer.
type FoldedTensor struct {
	G  *graph.Graph
	T  *graph.Tensor
	Of string // the tensor of the model that it holds, if that has another name
	At string // the path of the graph, as in PathsIn: passes behind this one copy graphs
}

// Folder chooses what of a model is folded.
type Folder struct {
	*planner.Rules
	Given   *graph.Model // that was read
	Trained bool         // model is a training step
	Runtime string       // as Options.Runtime
	Limit   int64        // as Options.FoldLimit
	// Plan returns the figures of a model. Those of one whose total is above most may be
	// lower bounds.
	Plan func(m *graph.Model, most int64) (planner.Figures, error)

	Model    *graph.Model // whose types have been inferred
	Done     *Result      // nil: nothing yet
	Values   [][][]byte   // of all components that could be folded
	budget   *constant.Budget
	shapes   *shapes      // that never change; nil: none
	shapesOf *graph.Model // the model that has them
}

// FoldedProduct is a product one of whose operands is no longer transposed.
type FoldedProduct struct {
	In                 int    // the place of its graph in the list of GraphsIn
	At                 string // its path, as in PathsIn, once the model stays as it is
	Result, Transposed string
}

// shapes holds the shapes of one graph that are the same in every run, so that what
// reads only them is a constant.
type shapes struct {
	tensors [][]int64                  // by TensorID; nil: may change
	bodies  map[graph.NodeID][]*shapes // in the order of bodiesOf
}

// Product is a node that multiplies by a transposed matrix: with FoldAny a Gemm reads the
// matrix as it lies. Graphs are places in the list of GraphsIn.
type Product struct {
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
