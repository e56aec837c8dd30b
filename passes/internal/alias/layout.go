package alias

// Graph is what the package must know of a graph. Storages are numbered from 0.
type Graph struct {
	Bytes []int64 // by storage: the size of its tensors
	Able  []bool  // by storage: it may share bytes with others
	Nodes []Node  // that move bytes only, each after those that make what it reads
	Align int64   // each part of a chain begins at a multiple of it; a power of two
}

// Node is a node whose outputs are made of bytes of its inputs.
type Node struct {
	ID     int32
	Ranges []Range // ascending by Out and At; those of one output adjoin each other
}

// Range says that the bytes [At, At+Bytes) of one storage, an output of a node, are the
// bytes [From, From+Bytes) of another, an input.
type Range struct {
	Out, In         int32
	At, From, Bytes int64
	Copied          bool // they are not shared
}

// None is the index of no root and of no storage.
const None = -1

// Root is memory that one node writes, or that no node does. Root i is storage i for each
// storage; further roots are the parts of a storage that its node must copy.
type Root struct {
	Storage int32 // whose node writes it
	At      int64 // its first byte in that storage
	Bytes   int64 // a multiple of the alignment
}

// Span is the bytes [From, To) of a root.
type Span struct {
	Root     int32
	From, To int64
}

// Layout is a set of nodes whose bytes are shared, with the content of every storage.
type Layout struct {
	Roots   []Root
	Content [][]Span // by storage
	Next    []int32  // by root: the root right behind it, or None; nil in a relaxed layout
	Shared  []int32  // the nodes that need not copy all of their bytes
	Saved   int64    // bytes that they need not copy

	g    *Graph
	prev []int32
	log  []int32 // roots whose Next was set for the present output
}

// Choose shares the bytes of all nodes, one after the other, except those that skip names
// and those that contradict nodes before them.
func (g *Graph) Choose(skip func(node int32) bool) *Layout {
	l := g.layout()
	l.Next, l.prev = none(len(g.Bytes)), none(len(g.Bytes))
	for _, n := range g.Nodes {
		if skip == nil || !skip(n.ID) {
			l.share(n)
		}
	}
	return l
}

// Relax shares the bytes of all nodes as if memory could have two places at once. The
// load of each order is at most that of any set of nodes that [Graph.Choose] can share.
func (g *Graph) Relax() *Layout {
	l := g.layout()
	for _, n := range g.Nodes {
		l.share(n)
	}
	return l
}

// maxSpans limits the spans of all contents of a relaxed layout.
const maxSpans = 1 << 22

// Explodes reports whether a relaxed layout may have too many spans: nodes that join a
// storage with itself, one after the other, make exponentially many.
func (g *Graph) Explodes() bool {
	count, sum := make([]int, len(g.Bytes)), 0
	for i := range count {
		count[i] = 1
	}
	for _, n := range g.Nodes {
		for i, r := range n.Ranges {
			if i == 0 || n.Ranges[i-1].Out != r.Out {
				count[r.Out] = 0
			}
			count[r.Out] += count[r.In]
			if sum += count[r.In]; sum > maxSpans {
				return true
			}
		}
	}
	return false
}

func (g *Graph) layout() *Layout {
	l := &Layout{g: g, Roots: make([]Root, len(g.Bytes)), Content: make([][]Span, len(g.Bytes))}
	for i, bytes := range g.Bytes {
		bytes = g.round(bytes)
		l.Roots[i] = Root{int32(i), 0, bytes}
		l.Content[i] = []Span{{int32(i), 0, bytes}}
	}
	return l
}

func none(n int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = None
	}
	return list
}

func (g *Graph) round(n int64) int64 { return (n + g.Align - 1) &^ (g.Align - 1) }

// possible reports whether the bytes of a range may be shared at all: both storages may,
// and the range begins at multiples of the alignment. It ends at one, too, or with both
// storages.
func (g *Graph) possible(r Range) bool {
	ends := r.Bytes%g.Align == 0 || r.At+r.Bytes == g.Bytes[r.Out] && r.From+r.Bytes == g.Bytes[r.In]
	return !r.Copied && g.Able[r.Out] && g.Able[r.In] && r.Bytes > 0 && r.At%g.Align == 0 && r.From%g.Align == 0 && ends
}

// share sets the content of each output of a node for which that is possible.
func (l *Layout) share(n Node) {
	shared := false
	for i := 0; i < len(n.Ranges); {
		end := i + 1
		for end < len(n.Ranges) && n.Ranges[end].Out == n.Ranges[i].Out {
			end++
		}
		shared = l.shareOutput(n.Ranges[i:end]) || shared
		i = end
	}
	if shared {
		l.Shared = append(l.Shared, n.ID)
	}
}

// shareOutput sets the content of one output, from its ranges, and reports whether some
// of its bytes are shared. Otherwise the output stays a root.
func (l *Layout) shareOutput(ranges []Range) bool {
	out := ranges[0].Out
	roots, saved := len(l.Roots), int64(0)
	var content []Span
	l.log = l.log[:0]
	for _, r := range ranges {
		if l.g.possible(r) {
			if more, ok := l.join(content, l.part(r)); ok {
				content = more
				saved += r.Bytes
				continue
			}
		}
		more, ok := l.copied(content, roots, r)
		if !ok {
			saved = 0
			break
		}
		content = more
	}
	if saved == 0 {
		l.undo(roots)
		return false
	}
	l.Content[out] = content
	l.Saved += saved
	return true
}

// part is the content of the bytes of a range.
func (l *Layout) part(r Range) []Span {
	var list []Span
	from, to := r.From, r.From+l.g.round(r.Bytes)
	at := int64(0)
	for _, s := range l.Content[r.In] {
		a, b := max(from, at), min(to, at+s.To-s.From)
		if a < b {
			list = append(list, Span{s.Root, s.From + a - at, s.From + b - at})
		}
		at += s.To - s.From
	}
	return list
}

// join appends a part of a content to another content, if it may lie right behind it.
// Inside of each, all spans adjoin already.
func (l *Layout) join(content, part []Span) ([]Span, bool) {
	if len(content) == 0 || l.Next == nil {
		return append(content, part...), true
	}
	last, first := &content[len(content)-1], part[0]
	if last.Root == first.Root {
		if last.To != first.From {
			return content, false
		}
		last.To = first.To
		return append(content, part[1:]...), true
	}
	if !l.link(*last, first) {
		return content, false
	}
	return append(content, part...), true
}

// link makes the root of one span lie right behind that of another, if that is possible.
func (l *Layout) link(last, first Span) bool {
	a, b := last.Root, first.Root
	switch {
	case last.To != l.Roots[a].Bytes || first.From != 0:
		return false
	case l.Next[a] == b:
		return true
	case l.Next[a] != None || l.prev[b] != None:
		return false
	}
	for x := b; x != None; x = l.Next[x] {
		if x == a {
			return false // the chain would be a ring
		}
	}
	l.Next[a], l.prev[b] = b, a
	l.log = append(l.log, a)
	return true
}

// copied appends bytes that the node of the output must write: as a new root, or as the
// end of the one before it. Roots from index roots on are new.
func (l *Layout) copied(content []Span, roots int, r Range) ([]Span, bool) {
	bytes := l.g.round(r.At+r.Bytes) - r.At
	if r.At%l.g.Align != 0 {
		bytes = l.g.round(r.At+r.Bytes) - l.g.round(r.At)
	}
	if bytes == 0 {
		return content, true // its bytes end within the root before it
	}
	if k := len(content) - 1; k >= 0 && int(content[k].Root) >= roots {
		last := &content[k]
		last.To += bytes
		l.Roots[last.Root].Bytes += bytes
		return content, true
	}
	if r.At%l.g.Align != 0 {
		return content, false
	}
	id := int32(len(l.Roots))
	l.Roots = append(l.Roots, Root{r.Out, r.At, bytes})
	if l.Next != nil {
		l.Next, l.prev = append(l.Next, None), append(l.prev, None)
	}
	span := Span{id, 0, bytes}
	if len(content) > 0 && l.Next != nil && !l.link(content[len(content)-1], span) {
		return content, false
	}
	return append(content, span), true
}

// undo takes back what was set for the present output.
func (l *Layout) undo(roots int) {
	for _, a := range l.log {
		l.prev[l.Next[a]] = None
		l.Next[a] = None
	}
	l.Roots = l.Roots[:roots]
	if l.Next != nil {
		l.Next, l.prev = l.Next[:roots], l.prev[:roots]
	}
}
