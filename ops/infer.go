package ops

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/internal/printable"
)

// Options are the options of shape inference.
type Options struct {
	// Dims gives lengths of dimensions, by their name or by their place (x[0]). A
	// length by place holds at that place only if one by name contradicts it.
	Dims map[string]int64
	// AtMost names dimensions of Dims whose lengths are not known before the model runs, but
	// at most those of Dims: what Infer then finds holds for all smaller lengths, too. The
	// lengths of one name are equal.
	AtMost []string
	// Positive names dimensions of AtMost whose lengths are above 0.
	Positive []string
	// Values are the values of inputs that are known before the model runs.
	Values map[string]graph.Literal
	// StrictDims makes an unbound dimension an error; otherwise its length is 1.
	StrictDims bool
	// SpareDims: Dims and Values may name dimensions and inputs that the model
	// does not have.
	SpareDims bool
	// Strict makes a declared shape that contradicts inference an error;
	// otherwise it is a warning, and the inferred shape is used.
	Strict bool
	// IgnoreDeclared ignores declared types, except those of inputs. Tests of
	// operators set it.
	IgnoreDeclared bool
}

// BoundDim is a dimension of the model's inputs and its length.
type BoundDim struct {
	Name    string
	Value   int64
	Assumed bool   // the length is not given, but assumed
	Place   string // the first axis with that length, such as x[0]
}

// Inference holds the results of Infer other than the types, which it writes into
// the model.
type Inference struct {
	Dims     []BoundDim               // sorted by name
	Warnings []string                 // in the order found: harmless contradictions
	Given    map[string]graph.Literal // the values of inputs, in the form of graph.LiteralOf
	Values   []*Value                 // folded elements of each tensor of the main graph; nil if not known
	Spare    Spare                    // with Options.SpareDims

	monomials *monomials
	lengths   map[int64]string // names of the dimensions in Options.AtMost, by identity
}

// Spare lists the names in Options.Dims and Options.Values that bind nothing, sorted.
type Spare struct {
	Dims, Values []string
}

// Infer binds the symbolic dimensions of m and sets Type, Bytes, Bounded and
// Dynamic of every tensor and Semantics of every node, including those of bodies.
// Declared types (value_info) are used if inference has no result. If it has one,
// a declared element type that contradicts it is an error, a declared shape a
// warning. Errors are of type *graph.Error.
func Infer(m *graph.Model, opt Options) (_ *Inference, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	inf := newInferrer(m, opt)
	err = inf.run()
	if err != nil && inf.began && len(inf.unbound) > 0 {
		inf, err = inf.settle(err)
	}
	if err != nil {
		var e *graph.Error
		if !errors.As(err, &e) {
			e = graph.Errorf("%w", err)
		}
		if e.File == "" && m.Source != nil {
			e.File = m.Source.Name
		}
		return nil, e
	}
	return inf.result, m.Source.Unchanged()
}

// Dims binds the dimensions of the inputs as Infer does, and does nothing more. It
// is for a model that Infer refuses.
func Dims(m *graph.Model, opt Options) ([]BoundDim, error) {
	inf := newInferrer(m, opt)
	if err := inf.collectFunctions(); err != nil {
		return nil, err
	}
	err := inf.bindInputs()
	sortDims(inf.result.Dims)
	return inf.result.Dims, err
}

func sortDims(list []BoundDim) {
	slices.SortStableFunc(list, func(a, b BoundDim) int { return cmp.Compare(a.Name, b.Name) })
}

func newInferrer(m *graph.Model, opt Options) *inferrer {
	return &inferrer{model: m, opt: opt, result: &Inference{}, calls: map[callID]*instance{}}
}

// inferrer is the state shared by all scopes of one Infer.
type inferrer struct {
	model   *graph.Model
	opt     Options
	symbols symbols
	unbound []string                  // dimensions without a length, in the order found
	taken   map[string]int64          // their lengths, if not 1
	forced  bool                      // these lengths follow from those that are given
	began   bool                      // the inputs are bound
	at      int                       // position of the present node of the main graph, in topological order
	given   map[graph.TensorID]*Value // values of the main graph's inputs
	result  *Inference
	total   int64                                    // bytes of all tensors of the main graph, to detect overflow
	pairs   map[[mostAlike]graph.Alias][]graph.Alias // see alike

	identities int64 // number of identities given to bounded lengths
	monomials  monomials

	contradictions map[*graph.Tensor]string // by declared shapes; "" if a later inference of the body found none
	contradicted   []*graph.Tensor          // their keys in the order found

	impossible []impossible // branches of If, some more than once

	functions map[functionID]*graph.Function
	calls     map[callID]*instance // instances of local functions

	// Counters of work and memory that a hostile file could exhaust (limits.go).
	axes     int // of all shapes
	visits   int // nodes and tensors of bodies, counted at each inference
	unrolled int // the part of visits spent on following loops
	cloned   int // nodes and tensors of instances of local functions
	folded   int // elements of stored values
}

// scope is a graph during inference.
type scope struct {
	g      *graph.Graph
	outer  *scope
	opsets []graph.Opset
	values []*Value                // by TensorID
	stored []graph.TensorID        // by TensorID: for a view, the tensor whose storage it shares, else the tensor itself
	absent map[graph.TensorID]bool // inputs of a function that a call leaves out
	main   bool
	blank  bool // the shapes and values of captured tensors are left out
}

func (inf *inferrer) run() error {
	m := inf.model
	if len(m.Opsets) == 0 && len(m.Graph.Nodes) > 0 {
		return graph.Errorf("opset_import is empty: expected the version of ai.onnx")
	}
	if err := inf.collectFunctions(); err != nil {
		return err
	}
	if err := inf.bindInputs(); err != nil {
		return err
	}
	inf.began = true
	s := &scope{g: m.Graph, opsets: m.Opsets, main: true}
	if err := inf.graph(s, nil); err != nil {
		return err
	}
	inf.warnDeclared()
	inf.warnImpossible()
	inf.result.Values, inf.result.monomials = s.values, &inf.monomials
	sortDims(inf.result.Dims)
	return nil
}

// graph infers one scope. args are the types of its inputs; nil for the main
// graph, whose input types bindInputs has set.
func (inf *inferrer) graph(s *scope, args []Arg) error {
	g := s.g
	if !s.main {
		if err := inf.visit(g); err != nil {
			return err
		}
	}
	g.NeverRuns = ""
	s.values = make([]*Value, len(g.Tensors))
	s.stored = make([]graph.TensorID, len(g.Tensors))
	for id, t := range g.Tensors {
		s.stored[id] = graph.TensorID(id)
		if t.Data != nil {
			t.Type = t.Data.TensorType()
			s.values[id] = valueOf(t.Data)
			if err := inf.declaredData(t); err != nil {
				return err
			}
			if err := inf.size(s, t); err != nil {
				return err
			}
		}
	}
	if len(g.Captures) > 0 && s.outer == nil {
		return graph.Errorf("the main graph captures tensors: expected that only bodies do")
	}
	for _, c := range g.Captures {
		o := s.outer.g.Tensors[c.Outer]
		t := g.Tensors[c.Inner]
		t.Type, t.Dynamic, t.Bytes, t.Bounded = o.Type, o.Dynamic, o.Bytes, o.Bounded
		s.values[c.Inner] = s.outer.values[c.Outer]
		if s.blank && o.Type.Kind == graph.KindTensor {
			t.Type, t.Bytes, t.Bounded = graph.Type{Kind: graph.KindTensor, Elem: o.Type.Elem}, 0, false
			t.Dynamic = neverRunsReason
			s.values[c.Inner] = nil
		}
		if s.outer.absent[c.Outer] {
			s.leaveOut(c.Inner)
		}
	}
	for i, id := range g.Inputs {
		t := g.Tensors[id]
		if args != nil {
			t.Type = graph.Type{}
			if i < len(args) {
				t.Type = args[i].Type
				s.values[id] = args[i].Value
				if !args[i].Present {
					s.leaveOut(id)
				}
			}
			// If inference does not know a length, it changes from one iteration
			// to the next; the declared one is often that of the first iteration.
			if !t.Type.Ranked {
				inf.useDeclared(s, t)
			}
		}
		if s.main {
			s.values[id] = inf.given[id]
		}
		t.Dynamic = ""
		if err := inf.size(s, t); err != nil {
			return err
		}
		if t.Dynamic == "" && !sizeKnown(t) {
			t.Dynamic = dynamicInput(t.Type)
		}
	}
	order, err := g.Topological()
	if err != nil {
		return err
	}
	for i, n := range order {
		if s.main {
			inf.at = i
		}
		if err := inf.node(s, n); err != nil {
			var e *graph.Error
			if !errors.As(err, &e) {
				e = graph.Errorf("%w", err)
			}
			return e.AtNode(g.Label(n))
		}
	}
	return nil
}

// leaveOut records that input t of the scope was left out.
func (s *scope) leaveOut(t graph.TensorID) {
	if s.absent == nil {
		s.absent = map[graph.TensorID]bool{}
	}
	s.absent[t] = true
}

func dynamicInput(t graph.Type) string {
	if r := unsized(t); r != "" {
		return r
	}
	return "its shape is that of the values it is given at run time"
}

// sizeKnown reports whether the size of a tensor is known before the model runs.
func sizeKnown(t *graph.Tensor) bool {
	_, _, ok, err := t.Type.Size()
	return ok && err == nil
}

// unsized says why a type never has a fixed size; "" if it may have one.
func unsized(t graph.Type) string {
	switch {
	case t.Kind == graph.KindTensor && t.Elem == graph.String:
		return "strings have no fixed size"
	case t.Kind != graph.KindTensor && t.Kind != graph.KindUnknown:
		return t.Kind.String() + " values have no fixed size"
	}
	return ""
}

// size sets Bytes and Bounded.
func (inf *inferrer) size(s *scope, t *graph.Tensor) error {
	t.Bytes, t.Bounded = 0, false
	if inf.axes += len(t.Type.Shape); inf.axes > maxAxes {
		return graph.Errorf("the shapes of all tensors together have more than %d axes", maxAxes)
	}
	if t.Data != nil && t.Data.Sparse != nil {
		t.Bytes = t.Data.Bytes
		return nil
	}
	bytes, exact, ok, err := t.Type.Size()
	if err != nil {
		e := graph.Errorf("%v: %w", t.Type, err)
		e.Tensor = t.Name
		return e
	}
	if !ok {
		return nil
	}
	t.Bytes, t.Bounded = bytes, !exact
	if s.main {
		// The limit leaves room for rounding each size up to an alignment of up
		// to 1 MiB, and for sums of a few such totals.
		if inf.total += bytes; inf.total > math.MaxInt64/4 || inf.total < 0 {
			e := graph.Errorf("%v: the sizes of all tensors together overflow 63 bits", t.Type)
			e.Tensor = t.Name
			return e
		}
	}
	return nil
}

// node infers the outputs of node n.
func (inf *inferrer) node(s *scope, id graph.NodeID) error {
	g := s.g
	n := g.Nodes[id]
	c := &Call{Node: n, Graph: g, inf: inf, scope: s, id: id, Version: graph.FindOpset(s.opsets, n.Domain)}
	c.In = make([]Arg, len(n.Inputs))
	for i, t := range n.Inputs {
		if t >= 0 && !s.absent[t] {
			c.In[i] = Arg{true, g.Tensors[t].Type, s.values[t]}
		}
	}
	c.Out = make([]Arg, len(n.Outputs))
	for i, t := range n.Outputs {
		c.Out[i].Present = t >= 0
	}
	n.Semantics = graph.Semantics{}
	op := Lookup(n.Domain, n.Op)
	if fn := inf.function(n); fn != nil && !(op != nil && fn.Own()) {
		if err := inf.call(c, fn); err != nil {
			return err
		}
	} else if op != nil {
		if len(n.Outputs) == 0 {
			return c.Errf("has no outputs: expected at least one")
		}
		if err := checkAttributes(n); err != nil {
			return err
		}
		if err := op.Infer(c); err != nil {
			return err
		}
		n.Semantics.Known = true
		n.Semantics.Random = n.Semantics.Random || op.Random || hasRandomBody(n)
	}
	for k, t := range n.Outputs {
		if t < 0 {
			continue
		}
		out := g.Tensors[t]
		out.Type, out.Dynamic = c.Out[k].Type, ""
		if err := inf.declared(c, out, k); err != nil {
			return err
		}
		inf.identify(&out.Type)
		c.Out[k].Type = out.Type
		if err := inf.size(s, out); err != nil {
			return err
		}
		if !sizeKnown(out) {
			if err := inf.dynamic(s, id, out, k); err != nil {
				return err
			}
		}
	}
	if op != nil && n.Semantics.Call == nil {
		if op.Fold != nil && c.foldable() {
			op.Fold(c)
		}
		inf.sharing(c, op)
		if op.FLOPs != nil {
			n.Semantics.FLOPs = op.FLOPs(c)
		}
	}
	for k, t := range n.Outputs {
		if t >= 0 {
			s.values[t] = inf.keep(c.Out[k])
		}
	}
	return nil
}

// hasRandomBody reports whether a body of n contains a random node.
func hasRandomBody(n *graph.Node) bool {
	for _, a := range n.Attrs {
		if a.Graph != nil && slices.ContainsFunc(a.Graph.Nodes, func(m *graph.Node) bool { return m.Semantics.Random }) {
			return true
		}
	}
	return false
}

// foldable reports whether some output is small enough to have a value.
func (c *Call) foldable() bool {
	for i := range c.Out {
		if n, ok := c.Out[i].Elements(); ok && n <= FoldLimit {
			return true
		}
	}
	return false
}

// dynamic finds out why an output has no size. If the reason is not data, it
// refuses the model.
func (inf *inferrer) dynamic(s *scope, id graph.NodeID, out *graph.Tensor, k int) error {
	n := s.g.Nodes[id]
	if reason := unsized(out.Type); reason != "" {
		out.Dynamic = reason
		return nil
	}
	if !n.Semantics.Known {
		what := "shape"
		if out.Type.Kind == graph.KindTensor && out.Type.Ranked && out.Type.Elem == graph.Undefined {
			what = "element type"
		}
		e := graph.Errorf("output %d of an unknown operator: %s unknown: add it to value_info%s", k, what, inf.unknowns(s.g))
		e.Tensor = out.Name
		return e
	}
	n.Reads(func(t graph.TensorID) {
		if in := s.g.Tensors[t]; out.Dynamic == "" && in.Dynamic != "" && unsized(in.Type) == "" {
			out.Dynamic = in.Dynamic
		}
	})
	if out.Dynamic == "" {
		out.Dynamic = "the shape of what " + labelInPlan(s.g, id) + " makes depends on data"
	}
	return nil
}

// unknowns lists the operators of the main graph, or of the body that is inferred, that this
// package does not know, with the number of nodes of each: one run tells all. It is "" if there
// is one alone.
func (inf *inferrer) unknowns(g *graph.Graph) string {
	counts := map[string]int{}
	all := 0
	for _, n := range g.Nodes {
		if Lookup(n.Domain, n.Op) == nil && inf.function(n) == nil {
			counts[n.OpName()]++
			all++
		}
	}
	if all < 2 {
		return ""
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return fmt.Sprintf(" (unknown operators here, with the number of nodes: %s)", strings.Join(list, "; "))
}

// labelInPlan is the label of a node in the plan, which is the same however names
// are printed.
func labelInPlan(g *graph.Graph, id graph.NodeID) string {
	n := g.Nodes[id]
	if n.Name == "" {
		return g.Label(id)
	}
	return fmt.Sprintf("node %q (%s)", printable.CutAlways(n.Name), n.OpName())
}

// sharing keeps the operator's views and in-place pairs that are possible for the
// present types.
func (inf *inferrer) sharing(c *Call, op *Op) {
	n := c.Node
	if op.Views != nil {
		for _, a := range op.Views(c) {
			if c.sameSize(a) && c.Out[a.Out].Exact() == c.In[a.In].Exact() {
				n.Semantics.Views = append(n.Semantics.Views, a)
				if c.scope != nil {
					c.scope.stored[n.Outputs[a.Out]] = c.scope.stored[n.Inputs[a.In]]
				}
			}
		}
	}
	if op.Ranges != nil && len(n.Semantics.Views) == 0 && c.allExact() {
		n.Semantics.Ranges = op.Ranges(c)
	}
	if op.Inplace == nil {
		return
	}
	n.Semantics.Inplace = inf.alike(slices.DeleteFunc(c.safePairs(op.Inplace(c)), func(a graph.Alias) bool {
		isView := slices.ContainsFunc(n.Semantics.Views, func(v graph.Alias) bool { return v.Out == a.Out })
		return isView || !c.sameSize(a)
	}))
}

// mostAlike is the length of the lists of pairs that nodes share: nearly all have one pair or two.
const mostAlike = 2

// alike returns a list with the same pairs, which other nodes may have, too. Nothing may write to
// it; an append copies it.
func (inf *inferrer) alike(pairs []graph.Alias) []graph.Alias {
	if len(pairs) == 0 {
		return nil
	}
	if inf == nil || len(pairs) > mostAlike {
		return slices.Clip(pairs)
	}
	var key [mostAlike]graph.Alias
	for i := range key {
		key[i] = pairs[min(i, len(pairs)-1)]
	}
	list := inf.pairs[key]
	if len(list) != len(pairs) {
		list = slices.Clip(slices.Clone(pairs))
		if inf.pairs == nil {
			inf.pairs = map[[mostAlike]graph.Alias][]graph.Alias{}
		}
		inf.pairs[key] = list
	}
	return list
}

// safePairs drops in-place pairs that would overwrite another input which shares the
// storage and may be read later, as the updates in ScatterElements(x,i,x). Pairs
// stay if the output may overwrite all inputs in that storage: these are read
// element by element, as in Mul(x,x).
func (c *Call) safePairs(pairs []graph.Alias) []graph.Alias {
	if c.scope == nil || len(pairs) == 0 || len(c.Node.Inputs) == 1 {
		return pairs
	}
	type place struct {
		out    int
		stored graph.TensorID
	}
	stored := func(in int) graph.TensorID { return c.scope.stored[c.Node.Inputs[in]] }
	inputs := map[graph.TensorID]int{} // the number of inputs in each storage
	over := map[place]int{}            // the number of those that the output may overwrite
	for in, t := range c.Node.Inputs {
		if t >= 0 {
			inputs[stored(in)]++
		}
	}
	for _, a := range pairs {
		over[place{a.Out, stored(a.In)}]++
	}
	return slices.DeleteFunc(pairs, func(a graph.Alias) bool {
		return over[place{a.Out, stored(a.In)}] < inputs[stored(a.In)]
	})
}

// sameSize reports whether both tensors of a have the same size.
func (c *Call) sameSize(a graph.Alias) bool {
	if a.Out >= len(c.Out) || !c.Out[a.Out].Present || !c.Has(a.In) {
		return false
	}
	x, _, okX, _ := c.Out[a.Out].Size()
	y, _, okY, _ := c.In[a.In].Size()
	return okX && okY && x == y
}

func (inf *inferrer) warnf(format string, args ...any) {
	const most = 20
	if w := fmt.Sprintf(format, args...); len(inf.result.Warnings) < most && !slices.Contains(inf.result.Warnings, w) {
		inf.result.Warnings = append(inf.result.Warnings, w)
	}
}

// inferBody infers a body of the node of c and returns the types and values of
// its outputs.
func (c *Call) inferBody(g *graph.Graph, args []Arg) ([]Arg, error) {
	s := &scope{g: g, outer: c.scope, opsets: c.scope.opsets}
	if err := c.inf.graph(s, args); err != nil {
		return nil, err
	}
	return s.outputs(), nil
}

// outputs returns the types and values of the graph's outputs.
func (s *scope) outputs() []Arg {
	outs := make([]Arg, len(s.g.Outputs))
	for i, t := range s.g.Outputs {
		outs[i] = Arg{true, s.g.Tensors[t].Type, s.values[t]}
	}
	return outs
}
