package verify

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// inner checks the bodies of the main graph.
func (v *verifier) inner() bool {
	v.main.need = v.bodies(v.main, nil)
	v.recorded(v.main)
	if len(v.Plan.Subgraphs) > v.next {
		v.Fault(CodeSubgraph, "subgraphs: expected %d, found %d", v.next, len(v.Plan.Subgraphs))
	}
	return true
}

// bodies checks the plans of the bodies within a scope, each followed by those
// within it, and returns the required workspace of every node of the scope. The
// entries must be in the order of the nodes, then of their attributes.
func (v *verifier) bodies(s *scope, parent *int) []need {
	v.scopes = append(v.scopes, s)
	needs := make([]need, len(s.g.Nodes))
	for i, n := range s.g.Nodes {
		for _, a := range n.Bodies() {
			for k, g := range a.All() {
				want := plan.Subgraph{Parent: parent, Node: n.Name, Step: i, Attribute: a.Name, Index: k}
				needs[i].bytes = max(needs[i].bytes, v.body(s, g, want))
			}
		}
		if c := n.Semantics.Call; c != nil {
			needs[i].bytes = max(needs[i].bytes, v.callee(c))
			needs[i].atLeast = true
		}
	}
	return needs
}

// body checks the entry of one body and returns its workspace.
func (v *verifier) body(outer *scope, g *graph.Graph, want plan.Subgraph) int64 {
	v.Poll()
	at := v.next
	v.next++
	where := fmt.Sprintf("subgraph %d (%s, %s): ", at, outer.g.Label(graph.NodeID(want.Step)), want.Attribute)
	s := v.newScope(g, body, where)
	var p plan.Subgraph
	if at < len(v.Plan.Subgraphs) {
		p = v.Plan.Subgraphs[at]
		s.checkEntry(&want, &p)
	} else {
		s.fault(CodeSubgraph, "expected an entry, found %d entries", len(v.Plan.Subgraphs))
	}
	if !s.sorted() {
		return 0
	}
	s.share()
	s.need = v.bodies(s, &at)
	s.place(p.Buffers, p.Dynamic)
	s.checkOverlap(plan.Workspace)
	v.resident = append(v.resident, s.extents(p.Buffers, plan.Resident)...)
	s.checkSteps("steps", p.Steps, s.Loads(s.buffers))
	bytes := s.top(plan.Workspace)
	if p.Bytes != bytes {
		s.fault(CodeSubgraph, "bytes: expected %d, the end of its last buffer, found %d", bytes, p.Bytes)
	}
	return bytes
}

// checkEntry checks the node and the attribute of an entry.
func (s *scope) checkEntry(want, found *plan.Subgraph) {
	if number(want.Parent) != number(found.Parent) {
		s.fault(CodeSubgraph, "parent: expected %s, found %s", number(want.Parent), number(found.Parent))
	}
	if want.Node != found.Node || want.Step != found.Step {
		s.fault(CodeSubgraph, "expected node %q at step %d, found %q at step %d",
			graph.Short(want.Node), want.Step, graph.Short(found.Node), found.Step)
	}
	if want.Attribute != found.Attribute || want.Index != found.Index {
		s.fault(CodeSubgraph, "expected attribute %q, graph %d, found %q, graph %d",
			graph.Short(want.Attribute), want.Index, graph.Short(found.Attribute), found.Index)
	}
}

func number(p *int) string {
	if p == nil {
		return "none"
	}
	return fmt.Sprint(*p)
}

// top is the end of the last buffer of a pool.
func (s *scope) top(pool string) int64 {
	end := int64(0)
	for _, x := range s.extents(s.list, pool) {
		end = max(end, x.End)
	}
	return end
}

// recorded adds the workspaces that the plan says were recorded on a device to those that
// the nodes need. The model does not determine them: they are a claim, with which the
// buffers must agree.
func (v *verifier) recorded(s *scope) {
	if v.Plan.Workspaces == nil {
		return
	}
	v.Claim("workspaces")
	for _, w := range v.Plan.Workspaces.Nodes {
		if w.Step >= 0 && w.Step < len(s.need) && w.Bytes > 0 {
			s.need[w.Step].bytes = v.add(s.need[w.Step].bytes, v.round(w.Bytes))
		}
	}
}

// need is the workspace of a node.
type need struct {
	bytes   int64
	atLeast bool // the node calls a local function, whose placement is not in the plan
}

// fits reports whether a workspace of that many bytes is acceptable.
func (n need) fits(bytes int64) bool {
	return bytes == n.bytes || n.atLeast && bytes > n.bytes
}

// callee is the inner peak of a local function's body, rounded up, in its listed
// order and under the plan's sharing. Its inputs lie outside; its constants count
// like other tensors.
func (v *verifier) callee(c *graph.Call) int64 {
	if peak, known := v.peaks[c]; known {
		return peak
	}
	v.peaks[c] = v.peakOf(c.Body, functionBody)
	return v.peaks[c]
}

// listed returns a graph with its nodes in the order in which a reader sorts them: in a local
// function, a file may list them in any order.
func listed(g *graph.Graph) *graph.Graph {
	order, err := g.Topological()
	if err != nil || slices.IsSorted(order) { // inference refuses a circle
		return g
	}
	g = g.Clone()
	g.Reorder(order)
	return g
}

// peakOf is the peak of a graph within a local function.
func (v *verifier) peakOf(g *graph.Graph, kind scopeKind) int64 {
	g = listed(g)
	s := v.newScope(g, kind, "in a local function, ")
	s.share()
	for i, n := range g.Nodes {
		for _, a := range n.Bodies() {
			for _, b := range a.All() {
				s.Work[i] = max(s.Work[i], v.peakOf(b, functionPart))
			}
		}
		if c := n.Semantics.Call; c != nil {
			s.Work[i] = max(s.Work[i], v.callee(c))
		}
	}
	_, peak := s.simulate(s.Identity())
	return peak
}
