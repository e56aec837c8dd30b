package report

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// stepOperands are the tensors of a step, as indices into the header's; -1: absent, or a
// tensor without a place.
type stepOperands struct {
	inputs, outputs []int
}

// operandsOf finds the operands of each step in the planned model; there are none without one.
func (h *header) operandsOf(m *graph.Model) error {
	if m == nil {
		return nil
	}
	g := h.p.InRunOrder(m).Graph
	if len(g.Nodes) != len(h.p.Steps) {
		return fmt.Errorf("not the model of this plan: expected %d nodes, found %d", len(h.p.Steps), len(g.Nodes))
	}
	named := map[string]int{}
	for i := range h.tensors {
		if len(h.tensors[i].b.Tensors) > 0 { // no label of a workspace
			named[h.tensors[i].name] = i
		}
	}
	of := func(list []graph.TensorID) (found []int) {
		for _, t := range list {
			at := -1
			if t != graph.None {
				if i, placed := named[g.Tensors[t].Name]; placed {
					at = i
				}
			}
			found = append(found, at)
		}
		return found
	}
	for step := range g.Nodes {
		n := g.Nodes[step]
		if op, found := h.p.Steps[step].Op, plan.OpName(n); op != found {
			return fmt.Errorf("not the model of this plan: step %d: expected %s, found %s", step, graph.Short(op), graph.Short(found))
		}
		h.operands = append(h.operands, stepOperands{of(slices.Concat(n.Inputs, n.Captures)), of(n.Outputs)})
	}
	return nil
}

// poolOf is the index of the pool of a tensor.
func (h *header) poolOf(t *headerTensor) int {
	return slices.IndexFunc(h.p.Pools, func(pool plan.Pool) bool { return pool.Name == t.b.Pool })
}

// tables writes the types and the tables, whose definitions one file of the
// program enables.
func (h *header) tables() {
	fmt.Fprintf(h, `
struct %[1]s_tensor {
	const char *name;
	const char *pool;
	size_t offset;
	size_t bytes;
	unsigned long first_step;
	unsigned long last_step;
	unsigned long pool_index;
};
`, h.name)
	operands := ""
	switch {
	case len(h.operands) > 0:
		operands = "\tconst unsigned long *operands;\n\tunsigned long inputs;\n\tunsigned long outputs;\n"
		fmt.Fprintf(h, `
/* Operands are indices into %[1]s_tensors: the inputs, as the node lists them and then
 * what its bodies read from outside, and behind them the outputs. %[2]s_NONE is one that
 * is left out or has no place. */
#define %[2]s_NONE (~0UL)
`, h.name, h.NAME)
	case len(h.p.Steps) > 0:
		fmt.Fprintf(h, "\n/* Inputs and outputs of the steps are missing: export the planned model, which has them. */")
	}
	fmt.Fprintf(h, `
struct %[1]s_step {
	const char *name;
	const char *op;
	size_t load_bytes;
%[2]s};
`, h.name, operands)
	h.table("tensor", len(h.tensors), func(i int) {
		t := &h.tensors[i]
		fmt.Fprintf(h, "\t{%s, %s, %s, %s, %dUL, %dUL, %dUL},\n", inString(t.name), inString(t.b.Pool), literal(t.b.Offset), literal(t.b.Bytes), t.b.First, t.b.Last, h.poolOf(t))
	})
	h.operandTable()
	at := 0
	h.table("step", len(h.p.Steps), func(i int) {
		s := h.p.Steps[i]
		fmt.Fprintf(h, "\t{%s, %s, %s", inString(s.Name), inString(s.Op), literal(s.LoadBytes))
		if h.operands != nil {
			o := h.operands[i]
			fmt.Fprintf(h, ", %s_operands + %d, %dUL, %dUL", h.name, at, len(o.inputs), len(o.outputs))
			at += len(o.inputs) + len(o.outputs)
		}
		fmt.Fprintf(h, "},\n")
	})
}

// operandTable writes the operands of all steps, one after the other.
func (h *header) operandTable() {
	if len(h.operands) == 0 {
		return
	}
	fmt.Fprintf(h, "\n#ifdef %s_DEFINE_TABLES\nstatic const unsigned long %s_operands[] = {\n", h.NAME, h.name)
	for _, o := range h.operands {
		for i, t := range slices.Concat(o.inputs, o.outputs) {
			space := " "
			if i == 0 {
				space = "\t"
			}
			if t < 0 {
				fmt.Fprintf(h, "%s%s_NONE,", space, h.NAME)
			} else {
				fmt.Fprintf(h, "%s%dUL,", space, t)
			}
		}
		fmt.Fprintln(h)
	}
	fmt.Fprintf(h, "\t%s_NONE\n};\n#endif\n", h.NAME) // C99 has no empty arrays
}

// table writes a table, unless it is empty: C99 has no empty arrays.
func (h *header) table(what string, n int, row func(i int)) {
	if n == 0 {
		return
	}
	fmt.Fprintf(h, "\nextern const struct %[1]s_%[2]s %[1]s_%[2]ss[%[3]d];\n\n#ifdef %[4]s_DEFINE_TABLES\nconst struct %[1]s_%[2]s %[1]s_%[2]ss[%[3]d] = {\n", h.name, what, n, h.NAME)
	for i := range n {
		row(i)
	}
	fmt.Fprintf(h, "};\n#endif\n")
}
