// Package caches proves of a decoder whose caches were given a fixed capacity that each cache
// has it, stays, and is written by one node where the index says. That the rewritten decoder
// computes what the source does is claimed.
package caches

import (
	"reflect"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// Code is that of the violations.
const Code = "kv"

// prover is one run of Prove.
type prover struct {
	*subject.Subject
	next map[string]string
}

// Prove checks what the plan says of a decoder whose caches were given a fixed capacity.
// It must be what the file says. Each cache must have that capacity and stay. One
// TensorScatter alone may write it, as many tokens as the plan says, and where the index
// says. That the results are those of the source is claimed. next has the next values of the
// caches by their names; nil: the file has no caches that stay.
func Prove(s *subject.Subject, next map[string]string) {
	v := &prover{s, next}
	said, err := plan.KVOf(v.Model)
	if err != nil {
		v.Fault(Code, "%v", err)
		return
	}
	if !reflect.DeepEqual(said, v.Plan.KV) {
		v.Fault(Code, "kv: expected what the metadata %s of the model say", plan.KeyKV)
		return
	}
	if said == nil {
		return
	}
	v.Claim("kv")
	g := v.Model.Graph
	tensors := v.Tensors(g)
	if t := tensors[said.Index]; t == nil || !t.Input || t.Type.String() != graph.TensorOf(graph.Int64, 1).String() {
		v.Fault(Code, "kv: index %q: expected a graph input of one int64", graph.Short(said.Index))
		return
	}
	if said.New < 1 || said.New > said.Capacity {
		v.Fault(Code, "kv: %d new tokens with a capacity of %d: expected 1 to the capacity", said.New, said.Capacity)
	}
	if len(said.Caches) == 0 {
		v.Fault(Code, "kv: expected a cache")
	}
	for _, name := range said.Masks {
		if t := tensors[name]; t == nil || !t.Input || !slices.Contains(t.Type.Shape, graph.Dim(said.Capacity)) {
			v.Fault(Code, "kv: mask %q: expected a graph input with %d elements along an axis", graph.Short(name), said.Capacity)
		}
	}
	for i, c := range said.Caches {
		if slices.ContainsFunc(said.Caches[:i], func(o plan.KVCache) bool { return o.Past == c.Past }) {
			v.Fault(Code, "kv: cache %q is listed twice", graph.Short(c.Past))
			continue
		}
		v.cache(said, c, tensors)
	}
	if v.Source != nil {
		v.growing(said)
	}
}

// cache checks one cache.
func (v *prover) cache(said *plan.KV, c plan.KVCache, tensors map[string]*graph.Tensor) {
	g := v.Model.Graph
	before, after := tensors[c.Past], tensors[c.Present]
	wrong := func(expected string, args ...any) {
		v.Fault(Code, "kv: cache %q: expected "+expected, append([]any{graph.Short(c.Past)}, args...)...)
	}
	if before == nil || after == nil || !before.Input || !after.Output || v.next[c.Past] != c.Present {
		wrong("a graph input that stays, with its next value %q", graph.Short(c.Present))
		return
	}
	if c.Axis < 1 || c.Axis >= len(before.Type.Shape) || before.Type.Shape[c.Axis] != graph.Dim(said.Capacity) {
		wrong("%d tokens along axis %d, found %v", said.Capacity, c.Axis, before.Type)
		return
	}
	if after.Maker < 0 {
		wrong("a node that makes %q", graph.Short(c.Present))
		return
	}
	n, axis, linear := g.Nodes[after.Maker], len(before.Type.Shape)-2, true
	if a := n.Attr("axis"); a != nil {
		if axis = int(a.Int); axis < 0 {
			axis += len(before.Type.Shape)
		}
	}
	if a := n.Attr("mode"); a != nil {
		linear = a.String == "linear"
	}
	if n.Op != "TensorScatter" || n.Domain != "" || len(n.Inputs) != 3 || slices.Contains(n.Inputs, subject.None) || axis != c.Axis || !linear || g.Tensors[n.Inputs[0]] != before {
		wrong("that TensorScatter alone writes it, along axis %d", c.Axis)
		return
	}
	if fresh := g.Tensors[n.Inputs[1]]; axis >= len(fresh.Type.Shape) || fresh.Type.Shape[axis] != graph.Dim(said.New) {
		wrong("%d new tokens, found %v", said.New, fresh.Type)
	}
	at := copied(g, g.Tensors[n.Inputs[2]])
	if at.Maker >= 0 { // the index, for each of the batch
		if m := g.Nodes[at.Maker]; m.Op == "Expand" && m.Domain == "" && len(m.Inputs) == 2 && m.Inputs[0] >= 0 {
			at = copied(g, g.Tensors[m.Inputs[0]])
		}
	}
	if at != tensors[said.Index] {
		wrong("that it is written at %q, found %q", graph.Short(said.Index), graph.Short(at.Name))
	}
}

// copied returns the tensor of which one is a copy, in another pool or from the host; itself, if it
// is none.
func copied(g *graph.Graph, t *graph.Tensor) *graph.Tensor {
	for range g.Nodes {
		if t.Maker < 0 {
			break
		}
		n := g.Nodes[t.Maker]
		if !n.IsSwap() {
			break
		}
		t = g.Tensors[n.Inputs[0]]
	}
	return t
}

// growing compares the caches with the source, in which they have an open length, unless the
// source was rewritten already.
func (v *prover) growing(said *plan.KV) {
	if was, err := plan.KVOf(v.Source); err != nil || was != nil {
		if err != nil || !reflect.DeepEqual(was, said) {
			v.Fault(Code, "kv: expected what the metadata %s of the source say", plan.KeyKV)
		}
		return
	}
	tensors := v.Tensors(v.Source.Graph)
	for i, c := range said.Caches {
		t := tensors[c.Past]
		if t == nil || !t.Input || t.Declared == nil || c.Axis >= len(t.Declared.Type.Shape) || t.Declared.Type.Shape[c.Axis] != graph.Unknown {
			v.Fault(Code, "kv: cache %q: expected a graph input of the source whose length along axis %d is open", graph.Short(c.Past), c.Axis)
			continue
		}
		if i > 0 || c.Axis >= len(t.Declared.Symbols) {
			continue
		}
		if symbol := t.Declared.Symbols[c.Axis]; symbol != "" && symbol != said.Dimension {
			v.Fault(Code, "kv: dimension: expected %q, found %q", graph.Short(symbol), graph.Short(said.Dimension))
		}
	}
}
