package verify

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
)

// scope is one graph that is checked against a plan: its storages, and the buffers that the
// plan assigns to them, as the core takes them, and what names them.
type scope struct {
	core.Problem

	v     *verifier
	g     *graph.Graph
	kind  scopeKind
	where string // prefix of messages about a body; "" for the main graph

	origins   []origin         // by storage
	storageOf []int32          // by tensor: its storage, or none
	first     []graph.TensorID // by storage: its first tensor, in one piece for most lists
	need      []need           // by node: the workspace of its bodies and its function

	list    []plan.Buffer // the plan's
	buffers []core.Buffer // parallel to list
	seen    []int32       // by storage: 1 + the last buffer in which it was found
	at      []int32       // by tensor: its buffer, or none

	plain  []core.Storage // with aliases: the storages without; nil: there are none
	spanOf []int32        // with aliases, by tensor: the index of its span, or none
	held   [][]int32      // with aliases, by buffer: the storages in it

	originals []graph.TensorID // without added nodes: by tensor, the first tensor with its value; nil: none was added
}

// scopeKind says which storages count in a scope.
type scopeKind int8

const (
	mainGraph    scopeKind = iota
	body                   // captures lie outside
	functionBody           // captures and inputs lie outside; constants are ordinary tensors
	functionPart           // a body inside a local function: constants are ordinary tensors
)

// none is the index of no node, storage or buffer.
const none = core.None

// origin says of a storage which tensors it holds.
type origin struct {
	tensors []graph.TensorID // views of the first, which is not a view
	input   bool             // the first is a graph input
	bounded bool             // the true size may be smaller

	covers []graph.TensorID // with aliases: tensors of other storages of which this is a part
	piece  bool             // with aliases: a part of the storage of its tensor
}

func (v *verifier) newScope(g *graph.Graph, kind scopeKind, where string) *scope {
	p := core.Problem{Work: make([]int64, len(g.Nodes)), Inplace: v.Plan.Sharing.Inplace, Sums: &v.sums, Poll: v.Poll}
	return &scope{Problem: p, v: v, g: g, kind: kind, where: where}
}

// fault records a violation in this scope.
func (s *scope) fault(code, format string, args ...any) {
	s.v.Fault(code, "%s", s.where+fmt.Sprintf(format, args...))
}

// leaveUnchecked records a field of this scope's part of the plan as not checked.
func (s *scope) leaveUnchecked(field string) {
	if s.kind == body {
		field = "subgraphs." + field
	}
	s.v.Claim(field)
}

// name is a tensor's name for messages.
func (s *scope) name(t graph.TensorID) string {
	return fmt.Sprintf("%q", graph.Short(s.g.Tensors[t].Name))
}

// sorted reports whether the nodes are in a topological order, and records a
// violation if they are not.
func (s *scope) sorted() bool {
	ok := true
	for i, n := range s.g.Nodes {
		n.Reads(func(t graph.TensorID) {
			if m := s.g.Tensors[t].Maker; ok && m >= graph.NodeID(i) {
				ok = false
				s.fault(CodeOrder, "%s reads %s before %s makes it: expected a topological order", s.g.Label(graph.NodeID(i)), s.name(t), s.g.Label(m))
			}
		})
	}
	return ok
}

// storages makes the storages of the main graph. If its nodes are in no topological order,
// lifetimes have no meaning.
func (v *verifier) storages() bool {
	v.checkNoAliases()
	v.main = v.newScope(v.Model.Graph, mainGraph, "")
	if !v.main.sorted() {
		return false
	}
	v.main.share()
	return true
}

// share assigns a storage to every tensor that has a size. The nodes must be in a
// topological order.
func (s *scope) share() {
	g := s.g
	s.storageOf = make([]int32, len(g.Tensors))
	s.Storages = make([]core.Storage, 0, len(g.Tensors))
	s.origins = make([]origin, 0, len(g.Tensors))
	s.first = make([]graph.TensorID, len(g.Tensors))
	for id, t := range g.Tensors {
		id := graph.TensorID(id)
		s.storageOf[id] = none
		switch {
		case t.Maker >= 0:
		case t.Data != nil:
			s.add(id, t.Data.Bytes, core.Storage{Resident: s.kind <= body})
		case t.Dynamic == "" && (t.Input || t.Capture):
			s.add(id, t.Bytes, core.Storage{Outside: t.Capture || s.kind == functionBody})
		}
	}
	for _, node := range g.Nodes {
		for k, id := range node.Outputs {
			if id < 0 || g.Tensors[id].Dynamic != "" {
				continue
			}
			if from := s.viewedStorage(node, k); from != none {
				s.storageOf[id] = from
				s.origins[from].tensors = append(s.origins[from].tensors, id)
				continue
			}
			constant := ops.IsConstant(node)
			s.add(id, g.Tensors[id].Bytes, core.Storage{Resident: constant && s.kind <= body})
		}
	}
	for _, id := range g.Outputs {
		if i := s.storageOf[id]; i != none {
			s.Storages[i].Output = true
		}
	}
	for i := range s.Storages {
		st, o := &s.Storages[i], &s.origins[i]
		for _, id := range o.tensors {
			for _, n := range g.Tensors[id].Readers {
				st.Readers = append(st.Readers, int32(n))
			}
			o.bounded = o.bounded || g.Tensors[id].Bounded && g.Tensors[id].Data == nil
		}
		slices.Sort(st.Readers)
		st.Readers = slices.Compact(st.Readers)
	}
	s.holdOnHost()
	if s.kind == mainGraph {
		s.markUpdates()
	}
	s.link()
}

// link tells the core of each node what it reads and makes, and what it may write over what.
func (s *scope) link() {
	g := s.g
	s.Nodes = make([]core.Node, len(g.Nodes))
	count := 0
	for _, n := range g.Nodes {
		n.Reads(func(graph.TensorID) { count++ })
		count += len(n.Outputs)
	}
	slab := make([]int32, 0, 2*count)
	for id, n := range g.Nodes {
		c := &s.Nodes[id]
		from := len(slab)
		n.Reads(func(t graph.TensorID) {
			if m := g.Tensors[t].Maker; m >= 0 {
				slab = append(slab, int32(m))
			}
		})
		c.After = slab[from:len(slab):len(slab)]
		from = len(slab)
		n.Reads(func(t graph.TensorID) {
			if i := s.storageOf[t]; i != none {
				slab = append(slab, i)
			}
		})
		c.Reads = slab[from:len(slab):len(slab)]
		from = len(slab)
		for _, t := range n.Outputs {
			if t >= 0 && s.storageOf[t] != none {
				slab = append(slab, s.storageOf[t])
			}
		}
		c.Writes = slab[from:len(slab):len(slab)]
		for _, a := range n.Semantics.Inplace {
			if p, ok := s.pair(n, a); ok {
				c.Over = append(c.Over, p)
			}
			if a.In < len(n.Inputs) && n.Inputs[a.In] >= 0 && s.storageOf[n.Inputs[a.In]] != none {
				c.Overwrite = append(c.Overwrite, s.storageOf[n.Inputs[a.In]])
			}
		}
	}
}

// pair returns the storages of an in-place alias, if they have the same size and the
// result is the first tensor of its storage. The size may be 0: a parameter without
// elements is updated in place like any other, and nothing is written there.
func (s *scope) pair(n *graph.Node, a graph.Alias) (p core.Pair, ok bool) {
	if a.Out >= len(n.Outputs) || a.In >= len(n.Inputs) {
		return p, false
	}
	out, in := n.Outputs[a.Out], n.Inputs[a.In]
	if out < 0 || in < 0 || s.storageOf[out] == none || s.storageOf[in] == none {
		return p, false
	}
	results, overs := s.PartsOf(s.storageOf[out]), s.PartsOf(s.storageOf[in])
	if len(results) != 1 || len(overs) != 1 {
		return p, false
	}
	p = core.Pair{Result: results[0], Over: overs[0]}
	return p, s.origins[p.Result].tensors[0] == out && s.Storages[p.Over].Bytes == s.Storages[p.Result].Bytes
}

// add makes a storage of a tensor.
func (s *scope) add(t graph.TensorID, bytes int64, st core.Storage) {
	i := len(s.Storages)
	s.first[i] = t
	st.Maker, st.Bytes = int32(s.g.Tensors[t].Maker), s.v.round(bytes)
	s.storageOf[t] = int32(i)
	s.Storages = append(s.Storages, st)
	s.origins = append(s.origins, origin{tensors: s.first[i : i+1 : i+1], input: s.g.Tensors[t].Maker < 0 && s.g.Tensors[t].Data == nil && s.g.Tensors[t].Input})
}

// viewedStorage returns the storage of which output k of a node is a view, if views may
// share.
func (s *scope) viewedStorage(n *graph.Node, k int) int32 {
	if !s.v.Plan.Sharing.Views {
		return none
	}
	return s.viewOf(n, k)
}

func (s *scope) viewOf(n *graph.Node, k int) int32 {
	for _, a := range n.Semantics.Views {
		if a.Out == k && a.In < len(n.Inputs) && n.Inputs[a.In] >= 0 {
			return s.storageOf[n.Inputs[a.In]]
		}
	}
	return none
}
