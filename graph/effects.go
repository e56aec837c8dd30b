package graph

// Effects reports for each node of a graph whether its position relative to other
// such nodes may matter: its result is random, it has an effect besides its
// outputs, or its operator is unknown, so it may have. A node with bodies or a
// function is like the nodes in them. The graph must have been inferred. It takes
// O(nodes) time.
func Effects(g *Graph) []bool {
	e := effects{calls: map[*Call]bool{}}
	list := make([]bool, len(g.Nodes))
	for i, n := range g.Nodes {
		list[i] = e.of(n)
	}
	return list
}

type effects struct {
	calls map[*Call]bool // functions do not call each other in cycles
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
