package verify

import "github.com/onnxmem/onnxmem/graph"

// need is the workspace of a node.
type need struct {
	bytes   int64
	atLeast bool // the node calls a local function, whose placement is not stated
}

// fits reports whether a workspace of that many bytes will do.
func (n need) fits(bytes int64) bool {
	return bytes == n.bytes || n.atLeast && bytes > n.bytes
}

// inner is the inner peak of a local function's body, rounded up: run in the
// order that it is listed in, with the plan's rules of sharing. What it reads
// lies outside; constants are tensors like others.
func (v *verifier) inner(c *graph.Call) int64 {
	if peak, known := v.peaks[c]; known {
		return peak
	}
	v.peaks[c] = v.peakOf(c.Body, functionBody)
	return v.peaks[c]
}

// peakOf is the peak of a graph within a local function.
func (v *verifier) peakOf(g *graph.Graph, kind scopeKind) int64 {
	s := v.newScope(g, kind, "")
	s.share()
	for i, n := range g.Nodes {
		for _, a := range n.Bodies() {
			for _, b := range graphsOf(a) {
				s.work[i] = max(s.work[i], v.peakOf(b, functionPart))
			}
		}
		if c := n.Meaning.Call; c != nil {
			s.work[i] = max(s.work[i], v.inner(c))
		}
	}
	_, peak := s.simulate(s.listed())
	return peak
}

// graphsOf gives the graphs that an attribute holds.
func graphsOf(a *graph.Attr) []*graph.Graph {
	list := a.Graphs
	if a.Graph != nil {
		list = append(list[:len(list):len(list)], a.Graph)
	}
	return list
}
