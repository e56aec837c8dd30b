package passes

import (
	"cmp"
	"context"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
)

// Inspection describes a model to someone who has not seen it before.
type Inspection struct {
	Nodes      int        // of the main graph
	AllNodes   int        // of the main graph, all bodies and all functions
	Operators  []Operator // the most frequent first
	Parameters int64      // number of elements in all initializers, and weights in Constant nodes, including those of bodies
	Bytes      int64      // size of these elements
	Inputs     []Value
	Outputs    []Value
	Dims       []ops.BoundDim           // of a refused model: those that could be bound
	Values     map[string]graph.Literal // of inputs
	Warnings   []string                 // of a model that can be planned
	Largest    []Value                  // the ten largest node outputs, or fewer, in descending order of size
	Dynamic    []plan.Dynamic
	Tensors    []Value // every graph input and node output of the main graph

	// Plan holds the peak in program order. It is nil if the model cannot be
	// planned; Refused is the reason.
	Plan    *plan.Plan
	Refused error
}

// Operator counts the nodes of one operator.
type Operator struct {
	Name  string // domain::Op outside the standard domain
	Count int
	Known bool // shape inference supports it, or it is a local function
}

// Value describes a tensor.
type Value struct {
	Name    string
	Type    graph.Type
	Bytes   int64
	Bounded bool
	Dynamic string // why the size is not known
	Maker   string // label of the node that makes it; "" for a graph input
}

// Inspect describes a model. It changes m as [Optimize] does, but keeps the
// program order.
func Inspect(ctx context.Context, m *graph.Model, opt Options) *Inspection {
	in := &Inspection{Nodes: len(m.Graph.Nodes)}
	in.count(m)
	opt.Schedule, opt.Fold, opt.NoVerify = "program", FoldOff, true // nobody runs that plan
	if opt.Aliases == AliasesAuto {
		opt.Aliases = AliasesOff // the figures are those of the tensors as the file has them
	}
	r, err := Optimize(ctx, m, opt)
	if in.Refused = err; err != nil && graph.Check(m) == nil { // the lengths may be why
		in.Dims, _ = ops.Dims(m, ops.Options{Dims: opt.Dims, Values: opt.Values, SpareDims: true})
	}
	g := m.Graph
	value := func(id graph.TensorID) Value {
		t := g.Tensors[id]
		v := Value{t.Name, t.Type, t.Bytes, t.Bounded, t.Dynamic, ""}
		if v.Type.Kind == graph.KindUnknown && t.Declared != nil {
			v.Type = t.Declared.Type
		}
		if t.Maker >= 0 {
			v.Maker = g.Label(t.Maker)
		}
		return v
	}
	for _, id := range g.Inputs {
		in.Inputs = append(in.Inputs, value(id))
	}
	for _, id := range g.Outputs {
		in.Outputs = append(in.Outputs, value(id))
	}
	for id, t := range g.Tensors {
		if t.Input || t.Maker >= 0 {
			in.Tensors = append(in.Tensors, value(graph.TensorID(id)))
		}
		if t.Maker >= 0 && t.Bytes > 0 && !ops.IsConstant(g.Nodes[t.Maker]) {
			in.Largest = append(in.Largest, value(graph.TensorID(id)))
		}
	}
	slices.SortStableFunc(in.Largest, func(a, b Value) int { return cmp.Compare(b.Bytes, a.Bytes) })
	in.Largest = in.Largest[:min(len(in.Largest), 10)]
	if err == nil && r.Plan != nil {
		in.Plan, in.Dynamic, in.Warnings = r.Plan, r.Plan.Dynamic, r.Warnings
		for name, d := range r.Plan.Dims {
			in.Dims = append(in.Dims, ops.BoundDim{Name: name, Value: d.Value, Assumed: d.Assumed})
		}
		in.Values = r.Plan.Values
		slices.SortFunc(in.Dims, func(a, b ops.BoundDim) int { return cmp.Compare(a.Name, b.Name) })
	}
	return in
}

// count counts the operators and parameters in all graphs of the model.
func (in *Inspection) count(m *graph.Model) {
	operators := map[string]*Operator{}
	local := map[string]bool{}
	for _, f := range m.Functions {
		local[f.Domain+"::"+f.Name] = true
	}
	var walk func(g *graph.Graph)
	walk = func(g *graph.Graph) {
		for _, t := range g.Tensors {
			if t.Data != nil {
				in.Parameters += t.Data.Elements()
				in.Bytes += t.Data.Bytes
			}
		}
		for _, n := range g.Nodes {
			in.AllNodes++
			if d := constant.Weight(n); d != nil {
				in.Parameters += d.Elements()
				in.Bytes += d.Bytes
			}
			name := plan.OpName(n)
			if operators[name] == nil {
				operators[name] = &Operator{Name: name, Known: ops.Lookup(n.Domain, n.Op) != nil || local[n.Domain+"::"+n.Op]}
			}
			operators[name].Count++
			for _, a := range n.Bodies() {
				for _, b := range a.All() {
					walk(b)
				}
			}
		}
	}
	walk(m.Graph)
	for _, f := range m.Functions {
		walk(f.Body)
	}
	for _, o := range operators {
		in.Operators = append(in.Operators, *o)
	}
	slices.SortFunc(in.Operators, func(a, b Operator) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
}
