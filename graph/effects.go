package graph

// Effects reports for each node of a graph whether its place among others like
// it may matter: its result differs from run to run, it has an effect beside its
// outputs, or it may have, since nobody knows its operator. A node is as its
// bodies and its function are. The graph must have been inferred. O(nodes).
func Effects(g *Graph) []bool {
	e := effects{calls: map[*Call]bool{}}
	list := make([]bool, len(g.Nodes))
	for i, n := range g.Nodes {
		list[i] = e.of(n)
	}
	return list
}

type effects struct {
	calls map[*Call]bool // functions call each other without a cycle
}

func (e effects) of(n *Node) bool {
	s := &n.Semantics
	if s.Random || !s.Known && s.Call == nil {
		return true
	}
	for _, a := range n.Bodies() {
		for _, b := range a.All() {
			if e.any(b) {
				return true
			}
		}
	}
	if s.Call == nil {
		return false
	}
	has, known := e.calls[s.Call]
	if !known {
		has = e.any(s.Call.Body)
		e.calls[s.Call] = has
	}
	return has
}

func (e effects) any(g *Graph) bool {
	for _, n := range g.Nodes {
		if e.of(n) {
			return true
		}
	}
	return false
}
