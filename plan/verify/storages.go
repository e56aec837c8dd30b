package verify

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
)

// scope is one graph that is checked against a plan: its storages, and the
// buffers that the plan assigns to them.
type scope struct {
	v     *verifier
	g     *graph.Graph
	kind  scopeKind
	where string // prefix of messages about a body; "" for the main graph

	storages  []storage
	updated   []update         // training: storages and their updated values
	chained   []update         // of the buffers of these: a storage, and the one that is written over it
	storageOf []int32          // by tensor: its storage, or none
	first     []graph.TensorID // by storage: its first tensor, in one piece for most lists
	need      []need           // by node: the workspace of its bodies and its function

	list    []plan.Buffer // the plan's
	buffers []placed      // parallel to list
	seen    []int32       // by storage: 1 + the last buffer in which it was found
	at      []int32       // by tensor: its buffer, or none
	work    []int64       // by node: its workspace according to the plan
	pos     []int         // by node: its step

	plain   []storage // with aliases: the storages without; nil: there are none
	spanOf  []int32   // with aliases, by tensor: the index of its span, or none
	held    [][]int32 // with aliases, by buffer: the storages in it
	pairsOf [][]pair  // of a relaxed scope, by node: its in-place pairs

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
const none = -1

// storage is the memory of one tensor, or of several that are views of each
// other.
type storage struct {
	bytes    int64            // rounded up
	tensors  []graph.TensorID // the first is not a view
	maker    graph.NodeID     // of the first tensor
	readers  []graph.NodeID   // of any of the tensors; ascending, without duplicates
	input    bool             // the first is a graph input
	output   bool             // one of them is a graph output
	resident bool             // live at every step, in a pool of its own
	outside  bool             // belongs to the outer graph
	bounded  bool             // the true size may be smaller
	update   bool             // training: a parameter, a state or an updated value

	parts  []int32          // with aliases: the storages that hold its bytes; nil: itself
	covers []graph.TensorID // with aliases: tensors of other storages of which this is a part
	piece  bool             // with aliases: a part of the storage of its tensor
}

func (v *verifier) newScope(g *graph.Graph, kind scopeKind, where string) *scope {
	return &scope{v: v, g: g, kind: kind, where: where, work: make([]int64, len(g.Nodes))}
}

// fault records a violation in this scope.
func (s *scope) fault(code, format string, args ...any) {
	s.v.fault(code, "%s", s.where+fmt.Sprintf(format, args...))
}

// leaveUnchecked records a field of this scope's part of the plan as not checked.
func (s *scope) leaveUnchecked(field string) {
	if s.kind == body {
		field = "subgraphs." + field
	}
	s.v.claim(field)
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

// share assigns a storage to every tensor that has a size. The nodes must be in a
// topological order, unless the scope is in a local function.
func (s *scope) share() {
	g := s.g
	s.storageOf = make([]int32, len(g.Tensors))
	s.storages = make([]storage, 0, len(g.Tensors))
	s.first = make([]graph.TensorID, len(g.Tensors))
	for id, t := range g.Tensors {
		id := graph.TensorID(id)
		s.storageOf[id] = none
		switch {
		case t.Maker >= 0:
		case t.Data != nil:
			s.add(id, storage{bytes: t.Data.Bytes, resident: s.kind <= body})
		case t.Dynamic == "" && (t.Input || t.Capture):
			s.add(id, storage{bytes: t.Bytes, input: t.Input, outside: t.Capture || s.kind == functionBody})
		}
	}
	for _, n := range s.listed() {
		node := g.Nodes[n]
		for k, id := range node.Outputs {
			if id < 0 || g.Tensors[id].Dynamic != "" {
				continue
			}
			if from := s.viewedStorage(node, k); from != none {
				s.storageOf[id] = from
				s.storages[from].tensors = append(s.storages[from].tensors, id)
				continue
			}
			constant := ops.IsConstant(node)
			s.add(id, storage{bytes: g.Tensors[id].Bytes, resident: constant && s.kind <= body})
		}
	}
	for _, id := range g.Outputs {
		if i := s.storageOf[id]; i != none {
			s.storages[i].output = true
		}
	}
	for i := range s.storages {
		st := &s.storages[i]
		for _, id := range st.tensors {
			st.readers = append(st.readers, g.Tensors[id].Readers...)
			st.bounded = st.bounded || g.Tensors[id].Bounded && g.Tensors[id].Data == nil
		}
		slices.Sort(st.readers)
		st.readers = slices.Compact(st.readers)
	}
	if s.kind == mainGraph {
		s.markUpdates()
	}
}

// listed is the order of the nodes in the file. If a local function's nodes are
// not in a topological order, it is the order into which a reader sorts them.
func (s *scope) listed() []graph.NodeID {
	order, err := s.g.Topological()
	if err != nil {
		return nil // inference refuses it
	}
	return order
}

func (s *scope) add(t graph.TensorID, st storage) {
	i := len(s.storages)
	s.first[i] = t
	st.tensors = s.first[i : i+1 : i+1]
	st.maker = s.g.Tensors[t].Maker
	st.bytes = s.v.round(st.bytes)
	s.storageOf[t] = int32(len(s.storages))
	s.storages = append(s.storages, st)
}

// viewedStorage returns the storage of which output k of a node is a view, if views may
// share.
func (s *scope) viewedStorage(n *graph.Node, k int) int32 {
	if !s.v.p.Sharing.Views {
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

// counts reports whether storage i counts in loads.
func (s *scope) counts(i int32) bool {
	st := &s.storages[i]
	return !st.resident && !st.outside && !s.swapped(st)
}

// end is the last step.
func (s *scope) end() int { return max(len(s.g.Nodes)-1, 0) }

// lifetime returns the steps at which a storage holds its bytes if node n runs at
// step pos[n].
func (s *scope) lifetime(i int32, pos []int) (first, last int) {
	st := &s.storages[i]
	if st.resident {
		return 0, s.end()
	}
	if s.swapped(st) {
		return s.hostLifetime(st, pos)
	}
	if st.maker >= 0 {
		first = pos[st.maker]
	}
	last = first
	for _, n := range st.readers {
		last = max(last, pos[n])
	}
	if st.output {
		last = s.end()
	}
	return first, last
}

// identity is the order in which node n runs at step n.
func (s *scope) identity() []graph.NodeID {
	order := make([]graph.NodeID, len(s.g.Nodes))
	for i := range order {
		order[i] = graph.NodeID(i)
	}
	return order
}

// positions inverts an order: it returns the step of each node.
func positions(order []graph.NodeID) []int {
	pos := make([]int, len(order))
	for i, n := range order {
		pos[n] = i
	}
	return pos
}
