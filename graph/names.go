package graph

import "strconv"

// names counts how often each name of a node or tensor of a model was asked for.
type names map[string]int

// note adds the names of a graph and of the bodies within it.
func (s names) note(g *Graph) {
	for _, t := range g.Tensors {
		s[t.Name] = 1
	}
	for _, n := range g.Nodes {
		s[n.Name] = 1
		for _, a := range n.Bodies() {
			for _, b := range a.All() {
				s.note(b)
			}
		}
	}
}

// unique returns a name that is not in use: the one asked for, possibly with a
// number as suffix.
func (s names) unique(name string) string {
	s[name]++
	for try := name; ; s[name]++ {
		if k := s[name]; k > 1 {
			try = name + "_" + strconv.Itoa(k)
		}
		if try == name || s[try] == 0 {
			s[try] = max(s[try], 1)
			return try
		}
	}
}

// Unique returns a name that nothing in g has: the one asked for, possibly with a
// number as suffix. It scans all of g.
func (g *Graph) Unique(name string) string {
	taken := names{}
	taken.note(g)
	return taken.unique(name)
}
