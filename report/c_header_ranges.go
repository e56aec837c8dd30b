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
	if i := slices.IndexFunc(r.Stacking, func(b int) bool { return r.SizeOf[b] < 0 }); i >= 0 {
		fmt.Fprintf(h, "/* At other lengths no formula gives the size of %s, so the functions\n * that give the places there are missing: export tables for some lengths (--buckets). */\n", inComment(bufferLabel(h.p, &h.p.Buffers[r.Stacking[i]])))
		return
	}
	list := strings.Join(params, ", ")
	fmt.Fprintf(h, `
/* %[1]s_place writes the offset and the size of each tensor, in the order of
 * %[1]s_tensors, for the given lengths, and returns the size of the arena; either list
 * may be NULL, and entries of other pools stay as they are. %[1]s_arena_bytes returns
 * the size of the arena alone. Both return (size_t)-1 for lengths without a plan. */
size_t %[1]s_place(%[2]s, size_t *offsets, size_t *bytes);
size_t %[1]s_arena_bytes(%[2]s);

#ifdef %[3]s_DEFINE_TABLES
`, h.name, list, h.NAME)
	h.stackTable()
	fmt.Fprintf(h, "size_t %s_place(%s, size_t *offsets, size_t *bytes) {\n", h.name, list)
	fmt.Fprintf(h, "\tsize_t tops[%d] = {0}, sizes[%d], starts[%d], arena = 0, i, k;\n", max(1, len(h.p.Steps)), max(1, len(r.Sizes)), max(1, len(r.Stacking)))
	for _, name := range names {
		h.lengthCheck(param[name], h.p.Dims[name])
		if a, some := r.Accepted[name]; some {
			fmt.Fprintf(h, "\tif (%[1]s < %[2]d || %[1]s > %[3]d || (%[1]s - %[2]d) %% %[4]d != 0) return (size_t)-1;\n", param[name], a.Low, a.High, a.Step)
		}
	}
	for i, p := range r.Sizes {
		fmt.Fprintf(h, "\tsizes[%d] = ((size_t)(%s) + %d) / %d * %d;\n", i, cPolynomial(p, param), h.p.Alignment-1, h.p.Alignment, h.p.Alignment)
	}
	fmt.Fprintf(h, `	for (i = 0; i < %[2]d; i++) {
		const unsigned long *b = %[1]s_stack[i];
		size_t size = sizes[b[2]];
		starts[i] = 0;
		if (size == 0) continue;
		for (k = b[0]; k <= b[1]; k++)
			if (tops[k] > starts[i]) starts[i] = tops[k];
		for (k = b[0]; k <= b[1]; k++) tops[k] = starts[i] + size;
		if (starts[i] + size > arena) arena = starts[i] + size;
	}
	for (i = 0; i < %[3]d; i++) {
		unsigned long rank = %[1]s_rank_of[i];
		if (rank == %[2]d) continue;
		if (offsets) offsets[i] = starts[rank];
		if (bytes) bytes[i] = sizes[%[1]s_stack[rank][2]];
	}
	return arena;
}
size_t %[1]s_arena_bytes(%[4]s) { return %[1]s_place(%[5]s, NULL, NULL); }
#endif
`, h.name, len(r.Stacking), len(h.tensors), list, strings.Join(values(names, param), ", "))
}

// values returns what the names stand for, in their order.
func values(names []string, of map[string]string) (list []string) {
	for _, name := range names {
		list = append(list, of[name])
	}
	return list
}

// stackTable writes the steps and the size of each buffer of the stacking, from below, and
// the rank of each tensor's buffer.
func (h *header) stackTable() {
	r := h.p.Ranges
	rank := map[*plan.Buffer]int{}
	fmt.Fprintf(h, "/* The buffers of the arena from below: first step, last step, index of the size. */\nstatic const unsigned long %s_stack[%d][3] = {\n", h.name, max(1, len(r.Stacking)))
	for i, b := range r.Stacking {
		buf := &h.p.Buffers[b]
		rank[buf] = i
		fmt.Fprintf(h, "\t{%dUL, %dUL, %dUL},\n", buf.First, buf.Last, r.SizeOf[b])
	}
	if len(r.Stacking) == 0 {
		fmt.Fprintf(h, "\t{0UL, 0UL, 0UL},\n")
	}
	fmt.Fprintf(h, "};\n/* Of each tensor: the place of its buffer in that list; %d: it is in another pool. */\nstatic const unsigned long %s_rank_of[%d] = {\n", len(r.Stacking), h.name, max(1, len(h.tensors)))
	for _, t := range h.tensors {
		at, in := rank[t.b]
		if !in {
			at = len(r.Stacking)
		}
		fmt.Fprintf(h, "\t%dUL,\n", at)
	}
	if len(h.tensors) == 0 {
		fmt.Fprintf(h, "\t0UL,\n")
	}
	fmt.Fprintf(h, "};\n")
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
