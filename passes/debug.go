package passes

import (
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// checked runs a pass as Options.Check asks: the lists that have no order are shuffled before
// it and put back after it, and the invariants are checked with the shuffled lists and after
// the pass.
func (s *State) checked(name string, run func() error) error {
	h := newShuffler(name)
	before := s.now.Model
	h.shuffle(before)
	err := check(s)
	if err != nil {
		err = fmt.Errorf("before pass %s: %w", name, err)
	} else {
		err = run()
	}
	h.restore(before)
	if s.now.Model != before {
		h.restore(s.now.Model)
	}
	return err
}

// printBefore prints the graph before the first pass, with Options.Check.
func (s *State) printBefore(list []Pass) error {
	if s.opt.Printed == nil || !s.opt.Check || len(list) == 0 {
		return nil
	}
	return s.print("before pass " + list[0].Name)
}

// printAfter prints the graph after a pass, if that is asked for.
func (s *State) printAfter(p Pass) error {
	if s.opt.Printed == nil || !s.opt.Check && !slices.Contains(s.opt.PrintAfter, p.Name) {
		return nil
	}
	return s.print("after pass " + p.Name)
}

// print prints the graph, but with Options.Check only if it is another one than before. It
// walks over the graph twice, so that no text is held.
func (s *State) print(when string) error {
	opt := graph.PrintOptions{Elements: 8, OwnMetadata: true}
	if s.opt.Check {
		h := sha256.New()
		if err := graph.Print(h, s.now.Model, opt); err != nil {
			return err
		}
		last := s.lastPrinted
		if s.lastPrinted = [sha256.Size]byte(h.Sum(nil)); s.lastPrinted == last {
			_, err := fmt.Fprintf(s.opt.Printed, "// %s: the same\n", when)
			return err
		}
	}
	if _, err := fmt.Fprintf(s.opt.Printed, "// %s\n", when); err != nil {
		return err
	}
	return graph.Print(s.opt.Printed, s.now.Model, opt)
}

// shuffler puts lists whose elements are found by name into another order. These are opset
// imports, metadata, local functions and their attributes, and the attributes of nodes as far
// as they were read from a file: its copies can then be told. The bodies of a node keep their
// order, in which the plan lists them. A pass that takes the first element of such a list for
// the one that it wants then fails in tests. The order depends on the pass alone.
type shuffler struct {
	seed   string
	lists  map[listOf][]string     // the order of each list
	from   map[graph.Span][]string // the order of the list of each attribute
	orders map[string][2]string    // the orders of equal lists, as text: before and shuffled; for copies of nodes
}

// listOf names a list of a holder: a node, or a function by its name.
type listOf struct {
	holder any
	kind   string
}

func newShuffler(seed string) *shuffler {
	return &shuffler{seed: seed, lists: map[listOf][]string{}, from: map[graph.Span][]string{}, orders: map[string][2]string{}}
}

func (h *shuffler) shuffle(m *graph.Model) { eachList(m, h.note); eachList(m, h.shuffleList) }
func (h *shuffler) restore(m *graph.Model) { eachList(m, h.restoreList) }

// list is a list of a model, through functions.
type list struct {
	of    listOf
	names []string
	spans []graph.Span // of the attributes of a node: their places in the file
	// reorder puts element order[i] at place i of a copy of the list.
	reorder func(order []int)
}

func listWith[E any](of listOf, at *[]E, name func(E) string) list {
	l := list{of: of}
	for _, e := range *at {
		l.names = append(l.names, name(e))
	}
	l.reorder = func(order []int) {
		from := *at
		to := make([]E, len(from))
		for i, k := range order {
			to[i] = from[k]
		}
		*at = to // the old list may be shared
	}
	return l
}

// eachList calls f for all lists of a model that have no order and two elements or more.
func eachList(m *graph.Model, f func(list)) {
	some := func(l list) {
		if len(l.names) > 1 {
			f(l)
		}
	}
	opset := func(o graph.Opset) string { return o.Domain }
	prop := func(p graph.Prop) string { return p.Key }
	attr := func(a *graph.Attr) string { return a.Name }
	function := func(f *graph.Function) string { return f.Domain + "::" + f.Name + "|" + f.Overload }
	var walk func(*graph.Graph)
	walk = func(g *graph.Graph) {
		for _, n := range g.Nodes {
			some(listWith(listOf{n, "metadata"}, &n.Props, prop))
			if bodies := n.Bodies(); len(bodies) == 0 {
				l := listWith(listOf{n, "attributes " + n.OpName()}, &n.Attrs, attr)
				for _, a := range n.Attrs {
					l.spans = append(l.spans, a.Span)
				}
				some(l)
			} else {
				for _, a := range bodies {
					for _, b := range a.All() {
						walk(b)
					}
				}
			}
		}
	}
	some(listWith(listOf{"", "opsets"}, &m.Opsets, opset))
	some(listWith(listOf{"", "metadata"}, &m.Props, prop))
	some(listWith(listOf{"", "functions"}, &m.Functions, function))
	walk(m.Graph)
	for _, fn := range m.Functions {
		some(listWith(listOf{function(fn), "opsets"}, &fn.Opsets, opset))
		some(listWith(listOf{function(fn), "attributes"}, &fn.Attrs, func(s string) string { return s }))
		some(listWith(listOf{function(fn), "defaults"}, &fn.Defaults, attr))
		walk(fn.Body)
	}
}

// key is the same for lists with the same names in any order; false if a name occurs twice.
func (l list) key() (string, bool) {
	names := slices.Sorted(slices.Values(l.names))
	return l.of.kind + "\x00" + strings.Join(names, "\x00"), len(slices.Compact(names)) == len(l.names)
}

// note chooses one order for all lists with the same names. Where they have different orders,
// a copy of one could not be told from a copy of another, so they stay.
func (h *shuffler) note(l list) {
	key, ok := l.key()
	if !ok || slices.Contains(l.spans, graph.Span{}) {
		return
	}
	text := strings.Join(l.names, "\x00")
	old, known := h.orders[key]
	switch {
	case known && old[0] != text:
		h.orders[key] = [2]string{}
	case !known:
		seed := fnv.New64a()
		io.WriteString(seed, h.seed+"\x00"+key)
		shuffled := slices.Clone(l.names)
		rand.New(rand.NewPCG(seed.Sum64(), 0)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		h.orders[key] = [2]string{text, strings.Join(shuffled, "\x00")}
	}
}

func (h *shuffler) shuffleList(l list) {
	key, ok := l.key()
	if order := h.orders[key]; ok && order[1] != "" && !slices.Contains(l.spans, graph.Span{}) {
		h.lists[l.of] = l.names
		for _, span := range l.spans {
			h.from[span] = l.names
		}
		l.reorder(positions(l.names, strings.Split(order[1], "\x00")))
	}
}

// restoreList puts the elements that the list had before back into their order, at the places
// where such elements are. A node that a pass has copied, and perhaps changed, is recognised
// by its attributes, or else by their order.
func (h *shuffler) restoreList(l list) {
	before, known := h.lists[l.of]
	old := make([]bool, len(l.names)) // the elements that were there before
	for i := range old {
		old[i] = known
		if !known && l.spans != nil && h.from[l.spans[i]] != nil {
			before, old[i] = h.from[l.spans[i]], true
		}
	}
	if before == nil {
		before = h.original(l)
		for i := range old {
			old[i] = true
		}
	}
	rank := map[string]int{}
	for i, name := range before {
		rank[name] = i
	}
	var places, elements []int
	order := make([]int, len(l.names))
	for i, name := range l.names {
		order[i] = i
		if _, ok := rank[name]; ok && old[i] {
			places, elements = append(places, i), append(elements, i)
		}
	}
	slices.SortStableFunc(elements, func(a, b int) int { return rank[l.names[a]] - rank[l.names[b]] })
	for k, place := range places {
		order[place] = elements[k]
	}
	l.reorder(order)
}

// original returns the order of the list of which l seems to be a copy: of those of its kind
// of which l has elements in their shuffled order, the one with the most of them. nil: none.
func (h *shuffler) original(l list) (found []string) {
	most := 1
	for _, key := range slices.Sorted(maps.Keys(h.orders)) {
		order := h.orders[key]
		if order[1] == "" || !strings.HasPrefix(key, l.of.kind+"\x00") {
			continue
		}
		before, shuffled := strings.Split(order[0], "\x00"), strings.Split(order[1], "\x00")
		if c := common(l.names, shuffled); len(c) > most && slices.Equal(c, common(shuffled, l.names)) {
			most, found = len(c), before
		}
	}
	return found
}

// common returns the elements of a that b has, too.
func common(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(name string) bool { return !slices.Contains(b, name) })
}

// positions gives the index in names of each element of order.
func positions(names, order []string) []int {
	list := make([]int, len(order))
	for i, name := range order {
		list[i] = slices.Index(names, name)
	}
	return list
}
