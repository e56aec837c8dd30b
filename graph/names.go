package graph

import "strconv"

// names are the names that the nodes and tensors of a model have, and how often
// each was asked for.
type names map[string]int

// note takes the names of a graph and of the bodies within.
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

// unique gives a name that nothing has: the one asked for, or with a number behind
// it.
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

// Unique gives a name that nothing in g has: the one asked for, or with a number
// behind it. It looks at all of g.
func (g *Graph) Unique(name string) string {
	taken := names{}
	taken.note(g)
	return taken.unique(name)
}
