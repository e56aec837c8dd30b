package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/plan"
)

// ranges writes the functions that give the arena and the places at any point of the
// ranges, from the stacking and the polynomials of the sizes. If a buffer has no
// polynomial, a comment says so.
func (h *header) ranges() {
	r := h.p.Ranges
	if r == nil {
		return
	}
	names, _ := h.p.Box()
	ids := unique{}
	var params, box []string
	param := map[string]string{}
	for _, name := range names {
		id := ids.name("n_"+identifier(name), longestIdentifier)
		param[name] = id
		params = append(params, "size_t "+id)
		box = append(box, fmt.Sprintf("%s = %s", inComment(name), inComment(h.p.Dims[name].String())))
	}
	fmt.Fprintf(h, "\n/* The figures above are those of the largest lengths of %s. */\n", strings.Join(box, ", "))
	lists := h.piles()
	for _, l := range lists {
		if b := l.unsized; b != nil {
			fmt.Fprintf(h, "/* At other lengths no formula gives the size of %s, so the functions\n * that give the places there are missing: export tables for some lengths (--buckets). */\n", inComment(bufferLabel(h.p, b)))
			return
		}
	}
	list, whole := strings.Join(params, ", "), "the arena"
	if lists[0].pools > 1 {
		whole = "all\n * pools with a capacity together"
	}
	fmt.Fprintf(h, `
/* %[1]s_place writes the offset and the size of each tensor, in the order of
 * %[1]s_tensors, for the given lengths, and returns the size of %[4]s; either list
 * may be NULL, and entries of other pools stay as they are. %[1]s_arena_bytes returns
 * that size alone. Both return (size_t)-1 for lengths without a plan. */
size_t %[1]s_place(%[2]s, size_t *offsets, size_t *bytes);
size_t %[1]s_arena_bytes(%[2]s);

#ifdef %[3]s_DEFINE_TABLES
`, h.name, list, h.NAME, whole)
	steps, most := 1, 1
	for k := range lists {
		h.pileTable(&lists[k])
		steps, most = max(steps, lists[k].steps*lists[k].pools), max(most, len(lists[k].buffers))
	}
	h.ranks(&lists[0])
	h.pile()
	fmt.Fprintf(h, "size_t %s_place(%s, size_t *offsets, size_t *bytes) {\n", h.name, list)
	works := 0
	if len(lists) > 1 {
		works = lists[0].works
	}
	fmt.Fprintf(h, "\tsize_t tops[%d], sizes[%d] = {0}, starts[%d], arena, i, k;\n", steps, max(1, len(r.Sizes)+works), most)
	for _, name := range names {
		h.lengthCheck(param[name], h.p.Dims[name])
		if a, some := r.Accepted[name]; some {
			fmt.Fprintf(h, "\tif (%[1]s < %[2]d || %[1]s > %[3]d || (%[1]s - %[2]d) %% %[4]d != 0) return (size_t)-1;\n", param[name], a.Low, a.High, a.Step)
		}
	}
	for i, p := range r.Sizes {
		fmt.Fprintf(h, "\tsizes[%d] = ((size_t)(%s) + %d) / %d * %d;\n", i, cPolynomial(p, param), h.p.Alignment-1, h.p.Alignment, h.p.Alignment)
	}
	for k := len(lists) - 1; k > 0; k-- { // those within a body follow it
		l := &lists[k]
		fmt.Fprintf(h, "\tarena = %[1]s_pile(%[2]s, %[3]d, %[4]d, sizes, tops, starts);\n\tif (arena > sizes[%[5]d]) sizes[%[5]d] = arena;\n", h.name, l.name, len(l.buffers), l.steps, l.work)
	}
	l := &lists[0]
	fmt.Fprintf(h, "\tarena = %s_pile(%s, %d, %d, sizes, tops, starts);\n", h.name, l.name, len(l.buffers), l.steps*l.pools)
	if l.pools > 1 {
		fmt.Fprintf(h, `	for (arena = 0, k = 0; k < %[1]d; k++) { /* the end of the last buffer of each pool */
		size_t end = 0;
		for (i = k * %[2]d; i < (k + 1) * %[2]d; i++)
			if (tops[i] > end) end = tops[i];
		arena += end;
	}
`, l.pools, l.steps)
	}
	fmt.Fprintf(h, `	for (i = 0; i < %[3]d; i++) {
		const unsigned long *in = %[1]s_rank_of[i];
		if (in[1] == 0) continue;
		if (offsets) offsets[i] = starts[in[0]];
		if (bytes)
			for (bytes[i] = 0, k = 0; k < in[1]; k++) bytes[i] += sizes[%[2]s[in[0] + k][2]];
	}
	return arena;
}
size_t %[1]s_arena_bytes(%[4]s) { return %[1]s_place(%[5]s, NULL, NULL); }
#endif
`, h.name, l.name, len(h.tensors), list, strings.Join(values(names, param), ", "))
}

// piled is the stacking of the main graph or of a body.
type piled struct {
	name    string // of its table
	buffers []int  // from below, as indices into all
	all     []plan.Buffer
	steps   int
	sizes   []int  // of these buffers, as indices into the function's sizes
	chained []bool // of these buffers: it lies right behind the one before
	memory  []int  // of these buffers: its pool; those of pool k have the steps from k times steps on
	pools   int    // the number of pools, each stacked for itself
	unsized *plan.Buffer

	work  int // of a body: the index of its node's workspace in the sizes
	works int // of the main graph: the number of workspaces
}

// piles lists the stackings of the main graph and of the bodies, as the plan lists them. The
// sizes of workspaces follow those that polynomials give.
func (h *header) piles() []piled {
	r := h.p.Ranges
	lists := []piled{{name: h.name + "_stack", buffers: r.Stacking, all: h.p.Buffers, steps: max(1, len(h.p.Steps)), pools: max(1, len(h.p.Tiers()))}}
	type node struct{ graph, step int }
	works := map[node]int{}
	for k := range h.p.Subgraphs {
		s := &h.p.Subgraphs[k]
		at := node{0, s.Step}
		if s.Parent != nil {
			at.graph = *s.Parent + 1
		}
		if _, known := works[at]; !known {
			works[at] = len(r.Sizes) + len(works)
		}
		lists = append(lists, piled{name: fmt.Sprintf("%s_stack_%d", h.name, k+1), buffers: s.Ranges.Stacking, all: s.Buffers, steps: max(1, len(s.Steps)), pools: 1, work: works[at]})
	}
	lists[0].works = len(works)
	behind, err := h.p.Behind()
	if err != nil || len(h.p.Spans) == 0 {
		behind = nil
	}
	for g := range lists {
		l := &lists[g]
		sizeOf := r.SizeOf
		if g > 0 {
			sizeOf = h.p.Subgraphs[g-1].Ranges.SizeOf
		}
		for i, b := range l.buffers {
			size, known := sizeOf[b], sizeOf[b] >= 0
			if n := l.all[b].Node; n != nil {
				size, known = works[node{g, *n}]
			}
			if !known {
				l.unsized = &l.all[b]
			}
			l.sizes = append(l.sizes, size)
			l.memory = append(l.memory, max(0, slices.IndexFunc(h.p.Tiers(), func(t plan.Pool) bool { return t.Name == l.all[b].Pool })))
			l.chained = append(l.chained, g == 0 && behind != nil && i > 0 && behind[l.buffers[i-1]] == b)
		}
	}
	return lists
}

// pileTable writes the steps and the size of each buffer of a stacking, from below.
func (h *header) pileTable(l *piled) {
	fmt.Fprintf(h, "/* Buffers from below: first step, last step, index of the size; 1: right behind the one\n * before. */\nstatic const unsigned long %s[%d][4] = {\n", l.name, max(1, len(l.buffers)))
	for i, b := range l.buffers {
		buf, chained := &l.all[b], 0
		if l.chained[i] {
			chained = 1
		}
		shift := l.memory[i] * l.steps
		fmt.Fprintf(h, "\t{%dUL, %dUL, %dUL, %dUL},\n", buf.First+shift, buf.Last+shift, l.sizes[i], chained)
	}
	if len(l.buffers) == 0 {
		fmt.Fprintf(h, "\t{0UL, 0UL, 0UL, 0UL},\n")
	}
	fmt.Fprintf(h, "};\n")
}

// ranks writes where each tensor lies in the stacking of the main graph.
func (h *header) ranks(l *piled) {
	rank := map[*plan.Buffer]int{}
	for i, b := range l.buffers {
		rank[&l.all[b]] = i
	}
	fmt.Fprintf(h, "/* Of each tensor: the place of its first buffer in %s, and how many it has there. */\nstatic const unsigned long %s_rank_of[%d][2] = {\n", l.name, h.name, max(1, len(h.tensors)))
	for _, t := range h.tensors {
		first, count := t.b, 1
		if t.span >= 0 {
			s := h.p.Spans[t.span].Buffers
			first, count = &h.p.Buffers[s[0]], len(s)
		}
		at, in := rank[first]
		if !in {
			count = 0
		}
		fmt.Fprintf(h, "\t{%dUL, %dUL},\n", at, count)
	}
	if len(h.tensors) == 0 {
		fmt.Fprintf(h, "\t{0UL, 0UL},\n")
	}
	fmt.Fprintf(h, "};\n")
}

// pile writes the function that stacks buffers.
func (h *header) pile() {
	fmt.Fprintf(h, `static size_t %s_pile(const unsigned long (*list)[4], size_t n, size_t steps, const size_t *sizes, size_t *tops, size_t *starts) {
	size_t arena = 0, i, j, k, end;
	for (k = 0; k < steps; k++) tops[k] = 0;
	for (i = 0; i < n; i = end) {
		size_t low = 0, before = 0;
		for (end = i + 1; end < n && list[end][3];) end++;
		for (j = i; j < end; j++) {
			if (sizes[list[j][2]] == 0) continue;
			for (k = list[j][0]; k <= list[j][1]; k++)
				if (tops[k] > low + before) low = tops[k] - before;
			before += sizes[list[j][2]];
		}
		for (j = i; j < end; j++) {
			starts[j] = 0;
			if (sizes[list[j][2]] == 0) continue;
			starts[j] = low;
			low += sizes[list[j][2]];
			for (k = list[j][0]; k <= list[j][1]; k++)
				if (tops[k] < low) tops[k] = low;
			if (low > arena) arena = low;
		}
	}
	return arena;
}
`, h.name)
}

// values returns what the names stand for, in their order.
func values(names []string, of map[string]string) (list []string) {
	for _, name := range names {
		list = append(list, of[name])
	}
	return list
}

// lengthCheck writes the test of one length.
func (h *header) lengthCheck(id string, d plan.Dim) {
	if d.Values != nil {
		var list []string
		for _, n := range d.Values {
			list = append(list, fmt.Sprintf("%s != %d", id, n))
		}
		fmt.Fprintf(h, "\tif (%s) return (size_t)-1;\n", strings.Join(list, " && "))
		return
	}
	low := int64(0)
	if d.Low != nil {
		low = *d.Low
	}
	if low > 0 { // compilers warn of an unsigned length below 0
		fmt.Fprintf(h, "\tif (%s < %d) return (size_t)-1;\n", id, low)
	}
	fmt.Fprintf(h, "\tif (%[1]s > %[3]d || (%[1]s - %[2]d) %% %[4]d != 0) return (size_t)-1;\n", id, low, d.Value, d.Step)
}

// cPolynomial is a polynomial as an expression of C.
func cPolynomial(p plan.Polynomial, param map[string]string) string {
	if len(p) == 0 {
		return "0"
	}
	var terms []string
	for _, t := range p {
		factors := []string{fmt.Sprintf("%dLL", t.Factor)}
		for _, name := range slices.Sorted(maps.Keys(t.Powers)) {
			for range t.Powers[name] {
				factors = append(factors, "(long long)"+param[name])
			}
		}
		terms = append(terms, strings.Join(factors, " * "))
	}
	return strings.Join(terms, " + ")
}

// buckets writes the tables of some points, and the function that finds the first one that
// has no smaller length than those that are given.
func (h *header) buckets(points []*plan.Plan) {
	if len(points) == 0 {
		return
	}
	names, _ := h.p.Box()
	ids := unique{}
	var params, fits []string
	for k, name := range names {
		id := ids.name("n_"+identifier(name), longestIdentifier)
		params = append(params, "size_t "+id)
		fits = append(fits, fmt.Sprintf("%s <= %s_buckets[i].lengths[%d]", id, h.name, k))
	}
	fmt.Fprintf(h, `
/* Plans for some lengths of %[1]s: one of these has a place for each
 * tensor, in the order of %[2]s_tensors, and serves all smaller lengths. %[2]s_bucket
 * returns the first of them that has none of the lengths smaller than those given, or
 * %[3]d. */
struct %[2]s_bucket {
	size_t lengths[%[4]d];
	size_t arena_bytes;
	size_t offsets[%[5]d];
};
extern const struct %[2]s_bucket %[2]s_buckets[%[3]d];
size_t %[2]s_bucket(%[6]s);

#ifdef %[7]s_DEFINE_TABLES
const struct %[2]s_bucket %[2]s_buckets[%[3]d] = {
`, inComment(strings.Join(names, ", ")), h.name, len(points), len(names), max(1, len(h.tensors)), strings.Join(params, ", "), h.NAME)
	for _, p := range points {
		fmt.Fprintf(h, "\t{{")
		for _, name := range names {
			fmt.Fprintf(h, "%s, ", literal(p.Dims[name].Value))
		}
		fmt.Fprintf(h, "}, %s, {\n", literal(p.Summary.ArenaBytes))
		for i := range p.Buffers {
			for range max(1, len(p.Buffers[i].Tensors)) {
				fmt.Fprintf(h, "\t\t%s,\n", literal(p.Buffers[i].Offset))
			}
		}
		for i := range p.Spans {
			for range p.Spans[i].Tensors {
				fmt.Fprintf(h, "\t\t%s,\n", literal(p.Whole(i).Offset))
			}
		}
		if len(h.tensors) == 0 {
			fmt.Fprintf(h, "\t\t0UL,\n")
		}
		fmt.Fprintf(h, "\t}},\n")
	}
	fmt.Fprintf(h, `};
size_t %[1]s_bucket(%[2]s) {
	size_t i;
	for (i = 0; i < %[3]d; i++)
		if (%[4]s) return i;
	return %[3]d;
}
#endif
`, h.name, strings.Join(params, ", "), len(points), strings.Join(fits, " && "))
}
