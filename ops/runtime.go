package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Runtime is what a runtime other than our own permits: which of the views and in-place
// results that this package knows it makes without a copy.
type Runtime struct {
	Name    string
	Doc     string
	Version string // the version of the runtime against which the rows were tested
	Rows    []RuntimeRow
	// Expanded are operators of ONNX that the runtime replaces by the nodes of their
	// functions when it loads a model, at whatever level of optimization.
	Expanded []string
}

// RuntimeRow is an operator of a [Runtime]. Operators without a row share nothing.
type RuntimeRow struct {
	Domain, Name string
	Views        []graph.Alias // the output is the input's bytes, whoever else reads them
	Inplace      []graph.Alias // the output may be written over the input if nothing reads that later
	Source       string        // where the runtime says so
}

// ONNXRuntime and ONNXRuntimeArena are the names of the runtimes in [Runtimes].
const (
	ONNXRuntime      = "onnxruntime"
	ONNXRuntimeArena = "onnxruntime-arena"
)

// Runtimes lists the runtimes for which a model can be planned. Both are ONNX Runtime's
// provider for CPUs. The first has what its kernels are registered with (Alias, MayInplace):
// the runtime then shares by itself. The second adds kernels that are not registered so, but
// write each element after they have read the elements at its place. An allocator that
// gives out the address of an input that dies there gets the same bits.
// crosscheck/runtime_sharing.py runs each row.
var Runtimes = []Runtime{
	{
		Name: ONNXRuntime, Version: "1.31.1", Rows: registered, Expanded: expanded,
		Doc: "the views and in-place results that the kernels of ONNX Runtime's CPU provider are registered with",
	},
	{
		Name: ONNXRuntimeArena, Version: "1.31.1", Rows: slices.Concat(registered, forced), Expanded: expanded,
		Doc: "also the results that an allocator can make ONNX Runtime's CPU kernels write over an input",
	},
}

// expanded are the functions of ONNX without a kernel in ONNX Runtime's CPU provider.
var expanded = []string{
	"Bernoulli", "CastLike", "Celu", "CenterCropPad", "GroupNormalization", "HardSwish", "Mish",
	"NegativeLogLikelihoodLoss", "SequenceMap", "SoftmaxCrossEntropyLoss", "Swish",
}

// LookupRuntime returns a runtime; nil if it is unknown.
func LookupRuntime(name string) *Runtime {
	if i := slices.IndexFunc(Runtimes, func(r Runtime) bool { return r.Name == name }); i >= 0 {
		return &Runtimes[i]
	}
	return nil
}

// Row returns the row of an operator; nil if the runtime's kernel shares nothing.
func (r *Runtime) Row(domain, name string) *RuntimeRow {
	if i := slices.IndexFunc(r.Rows, func(w RuntimeRow) bool { return w.Domain == domain && w.Name == name }); i >= 0 {
		return &r.Rows[i]
	}
	return nil
}

// first is the pair of the first output and the first input.
var first = []graph.Alias{{}}

// over is the list of pairs of the first output with several inputs.
func over(inputs ...int) (list []graph.Alias) {
	for _, in := range inputs {
		list = append(list, graph.Alias{In: in})
	}
	return list
}

// msDomain is the domain of ONNX Runtime's own operators.
const msDomain = "com.microsoft"

// registered are the kernels of ONNX Runtime's CPU provider with Alias or MayInplace, of all
// versions of the operator. The sources lie below onnxruntime/core/providers/cpu and
// onnxruntime/contrib_ops/cpu.
var registered = []RuntimeRow{
	{Name: "Reshape", Views: first, Source: "tensor/reshape.cc"},
	{Name: "Flatten", Views: first, Source: "nn/flatten.cc"},
	{Name: "Squeeze", Views: first, Source: "tensor/squeeze.cc"},
	{Name: "Unsqueeze", Views: first, Source: "tensor/unsqueeze.cc"},
	{Name: "Identity", Views: first, Source: "tensor/identity_op.cc"},
	{Domain: msDomain, Name: "ExpandDims", Views: first, Source: "contrib_ops/cpu/expand_dims.cc"},

	{Name: "Cast", Inplace: first, Source: "tensor/cast_op.cc"},
	{Name: "CastLike", Inplace: first, Source: "a function of ONNX: becomes Cast"},
	{Name: "BitCast", Inplace: first, Source: "tensor/bitcast_op.cc"},
	{Name: "Trilu", Inplace: first, Source: "tensor/trilu.cc"},
	{Domain: msDomain, Name: "Trilu", Inplace: first, Source: "tensor/trilu.cc"},
	{Name: "Scatter", Inplace: first, Source: "tensor/scatter.cc"},
	{Name: "ScatterElements", Inplace: first, Source: "tensor/scatter.cc"},
	{Name: "TensorScatter", Inplace: first, Source: "llm/tensorscatter.cc"},

	{Name: "Clip", Inplace: first, Source: "math/clip.cc"},
	{Name: "Softmax", Inplace: first, Source: "math/softmax.cc"},
	{Name: "LogSoftmax", Inplace: first, Source: "math/softmax.cc"},
	{Name: "Shrink", Inplace: first, Source: "nn/shrink.cc"},
	{Name: "Elu", Inplace: first, Source: "activation/activations.cc"},
	{Name: "HardSigmoid", Inplace: first, Source: "activation/activations.cc"},
	{Name: "LeakyRelu", Inplace: first, Source: "activation/activations.cc"},
	{Name: "Relu", Inplace: first, Source: "activation/activations.cc"},
	{Name: "Selu", Inplace: first, Source: "activation/activations.cc"},
	{Name: "Sigmoid", Inplace: first, Source: "activation/activations.cc"},
	{Name: "Softplus", Inplace: first, Source: "activation/activations.cc"},
	{Name: "Softsign", Inplace: first, Source: "activation/activations.cc"},
	{Name: "Tanh", Inplace: first, Source: "activation/activations.cc"},
	{Name: "ThresholdedRelu", Inplace: first, Source: "activation/activations.cc"},
	{Name: "ParametricSoftplus", Inplace: first, Source: "contrib_ops/cpu/activations.cc"},
	{Name: "ScaledTanh", Inplace: first, Source: "contrib_ops/cpu/activations.cc"},

	{Domain: msDomain, Name: "FusedConv", Inplace: over(3), Source: "contrib_ops/cpu/fused_conv.cc"},
}

// forced are kernels without MayInplace that compute element i of the result from the
// elements i of the operands. They loop over ranges of equal length (Broadcaster, one
// expression of Eigen over both spans), or over the elements. A kernel that keeps intermediate
// values in its result, such as Gelu's, is not one of them.
var forced = []RuntimeRow{
	{Name: "Add", Inplace: over(0, 1), Source: "math/element_wise_ops.cc"},
	{Name: "Sub", Inplace: over(0, 1), Source: "math/element_wise_ops.cc"},
	{Name: "Mul", Inplace: over(0, 1), Source: "math/element_wise_ops.cc"},
	{Name: "Div", Inplace: over(0, 1), Source: "math/element_wise_ops.cc"},
	{Name: "PRelu", Inplace: over(0, 1), Source: "math/element_wise_ops.cc"},
	{Name: "Abs", Inplace: first, Source: "math/element_wise_ops.cc"},
	{Name: "Neg", Inplace: first, Source: "math/element_wise_ops.cc"},
	{Name: "Floor", Inplace: first, Source: "math/element_wise_ops.cc"},
	{Name: "Ceil", Inplace: first, Source: "math/element_wise_ops.cc"},
	{Name: "Reciprocal", Inplace: first, Source: "math/element_wise_ops.cc"},
	{Name: "Sqrt", Inplace: first, Source: "math/element_wise_ops.cc"},
	{Name: "Exp", Inplace: first, Source: "math/element_wise_ops.cc"},
	{Name: "Log", Inplace: first, Source: "math/element_wise_ops.cc"},
	{Name: "Erf", Inplace: first, Source: "math/element_wise_ops.cc"},
	{Name: "BatchNormalization", Inplace: first, Source: "nn/batch_norm.cc"},
}

// Restrict drops the views and in-place results of an inferred model that a runtime does
// not make without a copy. Besides its rows, these rules of ONNX Runtime's allocation
// planner hold in every graph (core/framework/allocation_planner.cc):
//
//   - A graph output is allocated by itself: the caller keeps it after the run, and may have
//     given its memory. So it is no view and no in-place result, and nothing is written over it.
//   - A graph input, what a body captures and an initializer are never written over: their
//     bytes are the caller's, or those of the next run. Views of them are views.
//   - A result is written over an input only if both have one shape and elements of one size
//     (SameSize), and if the node reads that storage once: each reading counts as a user, and
//     one user may be left.
//
// A view that the runtime copies, but may copy onto its operand, becomes an in-place result.
// Restricting twice is restricting once.
func Restrict(m *graph.Model, r *Runtime) {
	restrictGraph(m.Graph, r, map[*graph.Graph]bool{})
}

// restrictGraph restricts a graph and those within it, each once: calls of a function with the
// same types share its body, so functions within each other would take exponential time.
func restrictGraph(g *graph.Graph, r *Runtime, done map[*graph.Graph]bool) {
	if done[g] {
		return
	}
	done[g] = true
	order, err := g.Topological()
	if err != nil {
		return // inference has refused it
	}
	x := restriction{g: g, r: r, root: make([]graph.TensorID, len(g.Tensors))}
	for id := range g.Tensors {
		x.root[id] = graph.TensorID(id)
	}
	for _, id := range order {
		n := g.Nodes[id]
		x.node(n)
		for _, a := range n.Bodies() {
			if a.Graph != nil {
				restrictGraph(a.Graph, r, done)
			}
			for _, body := range a.Graphs {
				restrictGraph(body, r, done)
			}
		}
		if c := n.Semantics.Call; c != nil && c.Body != nil {
			restrictGraph(c.Body, r, done)
		}
	}
}

// restriction is the state of restricting one graph.
type restriction struct {
	g    *graph.Graph
	r    *Runtime
	root []graph.TensorID // by tensor: the tensor of which it is a view, or itself
}

// node keeps what the runtime permits of a node.
func (x *restriction) node(n *graph.Node) {
	had := n.Semantics
	n.Semantics.Views, n.Semantics.Inplace, n.Semantics.Ranges = nil, nil, nil
	row := x.r.Row(n.Domain, n.Op)
	if row == nil || had.Call != nil {
		return
	}
	for _, a := range had.Views {
		if slices.Contains(row.Views, a) && !x.g.Tensors[n.Outputs[a.Out]].Output {
			n.Semantics.Views = append(n.Semantics.Views, a)
			x.root[n.Outputs[a.Out]] = x.root[n.Inputs[a.In]]
		}
	}
	for _, a := range slices.Concat(had.Views, had.Inplace) {
		if slices.Contains(row.Inplace, a) && x.mayOverwrite(n, a) && !slices.Contains(n.Semantics.Inplace, a) {
			n.Semantics.Inplace = append(n.Semantics.Inplace, a)
		}
	}
}

// mayOverwrite reports whether the planner's rules let a node write an output over an input.
func (x *restriction) mayOverwrite(n *graph.Node, a graph.Alias) bool {
	in, out := x.g.Tensors[n.Inputs[a.In]], x.g.Tensors[n.Outputs[a.Out]]
	root := x.root[n.Inputs[a.In]]
	owner := x.g.Tensors[root]
	reads := 0
	n.Reads(func(t graph.TensorID) {
		if x.root[t] == root {
			reads++
		}
	})
	kept := owner.Maker < 0 || IsConstant(x.g.Nodes[owner.Maker]) // ONNX Runtime makes an initializer of each Constant
	return !out.Output && !owner.Output && !kept && reads == 1 &&
		in.Type.Elem.Bits() == out.Type.Elem.Bits() && slices.Equal(in.Type.Shape, out.Type.Shape)
}
