// Package kv rewrites a decoder whose caches of keys and values grow by a Concat with
// every token into one whose caches have room for a fixed number of tokens, the capacity,
// and are written in place.
//
// In the given decoder a cache enters with past tokens on its axis and leaves with past +
// new ones. In the rewritten one it enters and leaves with capacity ones, TensorScatter
// writes the new tokens at a position that is a new input, and the rest of the graph works
// on the whole capacity. Of an axis of keys, the first past + new elements are what they
// were; those after them, the tail, hold whatever earlier runs left there. So the two
// decoders agree if no tail reaches a result. [Rewrite] shows that, node by node, and
// refuses where it cannot:
//
//	kv.go           Rewrite: what it takes and gives
//	caches.go       which inputs are caches
//	sample.go       lengths and numbers as functions of past: the graph at several of them
//	fact.go         what is known of a tensor: whether it has an axis of keys, and its tail
//	rules.go        the table of rules, one for each operator that may read keys
//	elementwise.go  masks: which tails are known
//	layout.go       where an axis of keys goes
//	attention.go    where keys are summed over: their weights must be zero in the tail
//	edit.go         new nodes and tensors
//	opset.go        TensorScatter needs opset 24
//
// Lengths need no rule of their own. The rewritten graph is the given one at past =
// capacity - new, the largest that fits: all that is computed from shapes and only gives
// shapes is right as it stands. A number that depends on past and is used as a number
// (a position, the bound of a mask) is computed for that full cache, too, and corrected by
// what the position lacks to it.
package kv

import (
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// Options are the options of [Rewrite].
type Options struct {
	Capacity int64       // tokens for which a cache has room
	Infer    ops.Options // lengths of dimensions, and values of inputs
	// New is the dimension of graph inputs that is the number of new tokens of a run, by name
	// or by place. The rewritten decoder computes that number from the shape of an input, so
	// that it can be the same for several of them. "": it is a constant.
	New string
}

// Cache is a graph input and the graph output that is its next value.
type Cache struct {
	Past, Present string
	Axis          int // of the tokens
}

// Decoder describes a rewritten decoder.
type Decoder struct {
	Dimension string   // of the tokens that the caches held
	New       int64    // tokens of a run
	Index     string   // graph input, int64[1]: the position of the first of them
	Caches    []Cache  // in the order of the graph's inputs
	Masks     []string // other graph inputs that have one element for each position
}

// rewriter is one run of [Rewrite].
type rewriter struct {
	opt    Options
	m      *graph.Model
	g      *graph.Graph
	caches []*cache
	tied   []string // other dimensions that are the number of tokens so far, by name
	fresh  int64    // new tokens of a run
	at     []sample // by ascending lengths of the past; the last one fills the caches
	facts  []fact   // by tensor; of tensors that were added, too
	edit   editor
}

// Rewrite returns the decoder with caches of fixed room. m stays as it is; the two share
// data. An error of type *graph.Error says why a decoder cannot be rewritten: which node,
// and what was expected.
func Rewrite(m *graph.Model, opt Options) (*graph.Model, *Decoder, error) {
	c := *m
	c.Graph, c.Opsets, c.Props = m.Graph.Clone(), slices.Clone(m.Opsets), slices.Clone(m.Props)
	r := &rewriter{opt: opt, m: &c, g: c.Graph}
	if err := r.findCaches(); err != nil {
		return nil, nil, err
	}
	if err := r.sample(); err != nil {
		return nil, nil, err
	}
	r.edit.begin(r)
	if err := r.upgrade(); err != nil {
		return nil, nil, err
	}
	if err := r.inputs(); err != nil {
		return nil, nil, err
	}
	order, err := r.g.Topological()
	if err != nil {
		return nil, nil, err
	}
	for _, id := range order {
		label := r.g.Label(id)
		if err := r.node(r.g.Nodes[id]); err != nil {
			return nil, nil, asError(err).AtNode(label)
		}
	}
	if err := r.outputs(); err != nil {
		return nil, nil, err
	}
	r.declare()
	d := r.decoder()
	if err := r.edit.finish(); err != nil { // after which tensors have other indices
		return nil, nil, err
	}
	return r.m, d, r.check(d)
}

// decoder describes the result.
func (r *rewriter) decoder() *Decoder {
	d := &Decoder{Dimension: r.caches[0].dimension, New: r.fresh, Index: r.g.Tensors[r.edit.index].Name}
	for _, c := range r.caches {
		d.Caches = append(d.Caches, Cache{r.nameOf(c.past), r.nameOf(c.present), c.axis})
	}
	for _, t := range r.g.Inputs {
		if int(t) < len(r.facts) && r.facts[t].kind == keys {
			d.Masks = append(d.Masks, r.nameOf(t))
		}
	}
	return d
}

// inputs sets the facts of graph inputs and initializers.
func (r *rewriter) inputs() error {
	for id, t := range r.g.Tensors {
		r.facts[id].pure = t.Data != nil && !t.Overridable
	}
	for _, id := range r.g.Inputs {
		if id == r.edit.index {
			continue
		}
		if c := r.cacheOf(id); c != nil {
			r.facts[id] = fact{kind: past, axis: c.axis}
			continue
		}
		axis, err := r.keysAxis(id)
		if err != nil {
			return err
		}
		if axis >= 0 {
			r.facts[id] = fact{kind: keys, axis: axis}
		}
	}
	return nil
}

// outputs refuses graph outputs that would have other elements.
func (r *rewriter) outputs() error {
	for _, id := range r.g.Outputs {
		f := r.facts[id]
		if f.kind == plain || slices.ContainsFunc(r.caches, func(c *cache) bool { return c.present == id }) {
			continue
		}
		e := graph.Errorf("is a graph output whose length or value depends on the tokens so far: expected caches alone to grow")
		e.Tensor = r.nameOf(id)
		return e
	}
	return nil
}

// declare gives the declared types of the tensors their new lengths.
func (r *rewriter) declare() {
	for id := range r.facts[:r.edit.given] {
		t := r.g.Tensors[id]
		if t.Declared == nil || !t.Declared.Type.Ranked || t.Data != nil {
			continue
		}
		d := &graph.Declared{Type: t.Declared.Type, Symbols: slices.Clone(t.Declared.Symbols)}
		d.Type.Shape = slices.Clone(d.Type.Shape)
		changed := false
		for axis := range d.Type.Shape {
			l := r.length(graph.TensorID(id), axis)
			if l.slope == 0 && l.known {
				continue
			}
			n := graph.Unknown
			if l.known {
				n = graph.Dim(l.at(r.opt.Capacity - r.fresh))
			}
			if r.facts[id].kind == past && axis == r.facts[id].axis {
				n = graph.Dim(r.opt.Capacity)
			}
			if !l.known && d.Type.Shape[axis] == n {
				continue // it depends on data
			}
			if d.Type.Shape[axis], changed = n, true; axis < len(d.Symbols) {
				d.Symbols[axis] = ""
			}
		}
		if changed {
			t.Declared = d
		}
	}
}

// check infers the rewritten graph: every tensor that it has from the given one must have
// the shape that it has there when the caches are full.
func (r *rewriter) check(d *Decoder) error {
	infer := r.opt.Infer
	infer.SpareDims = true
	m := *r.m
	m.Graph = r.m.Graph.Clone()
	if _, err := ops.Infer(&m, infer); err != nil {
		return err
	}
	full := map[string]*graph.Tensor{}
	for _, t := range r.full().g.Tensors {
		full[t.Name] = t
	}
	isPast := map[string]bool{}
	for _, c := range d.Caches {
		isPast[c.Past] = true
	}
	for _, t := range m.Graph.Tensors {
		want := full[t.Name]
		if want == nil || isPast[t.Name] || t.Type.String() == want.Type.String() {
			continue
		}
		e := graph.Errorf("is %v with caches of %d tokens, expected %v", t.Type, r.opt.Capacity, want.Type)
		e.Tensor = t.Name
		return e
	}
	return nil
}

func (r *rewriter) nameOf(t graph.TensorID) string { return r.g.Tensors[t].Name }

// dims returns the lengths of the given dimensions with those of the past.
func (r *rewriter) dims(pastLength int64) map[string]int64 {
	dims := maps.Clone(r.opt.Infer.Dims)
	if dims == nil {
		dims = map[string]int64{}
	}
	for _, c := range r.caches {
		dims[c.dimension] = pastLength
	}
	for _, name := range r.tied {
		dims[name] = pastLength + r.fresh
	}
	return dims
}

// asError returns an error as one that has a place.
func asError(err error) *graph.Error {
	if e, is := err.(*graph.Error); is {
		return e
	}
	return graph.Errorf("%w", err)
}
