package schedule

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// WriteMiniZinc writes the problem as a MiniZinc model with its data. It says what an order
// is by constraints on the step of each node, and what a load is by its definition. So it
// shares nothing with the integer program of [Problem.ILP], and any solver that MiniZinc
// knows can check an optimum. Sizes are in units of their greatest common divisor, and so is
// the optimum.
func WriteMiniZinc(w io.Writer, p *Problem) error {
	if err := p.Validate(); err != nil {
		return err
	}
	m := miniZinc{Graph: index(p), problem: p, w: bufio.NewWriter(w)}
	m.data()
	m.w.WriteString(miniZincModel)
	return m.w.Flush()
}

// miniZincModel is the same for all problems.
const miniZincModel = `
set of int: NODE = 0..nodes - 1;
set of int: STEP = 0..max(0, nodes - 1); % without nodes, the inputs are live at step 0

% An order.
array[NODE] of var STEP: step;
constraint alldifferent(step);
constraint forall(e in index_set(before))(step[before[e]] < step[after[e]]);

% A tensor is live from the step that makes it to that of its last reader, an output to the end.
array[TENSOR] of var STEP: first = array1d(TENSOR, [if producer[t] < 0 then 0 else step[producer[t]] endif | t in TENSOR]);
array[TENSOR] of var STEP: last = array1d(TENSOR,
	[if kept[t] then max(STEP) else max([first[t]] ++ [step[v] | v in readers[t]]) endif | t in TENSOR]);

% An in-place pair can be taken if all other readers of the overwritten tensor have run, and
% the pairs of a node are a matching.
array[PAIR] of var bool: taken;
constraint forall(k in PAIR, v in readers[over[k]] where v != writer[k])(taken[k] -> step[v] < step[writer[k]]);
constraint forall(k, l in PAIR where k < l /\ writer[k] = writer[l] /\ (over[k] = over[l] \/ result[k] = result[l]))(
	not (taken[k] /\ taken[l]));

array[STEP] of var 0..total: load = array1d(STEP, [
	sum(t in TENSOR)(size[t] * (first[t] <= s /\ s <= last[t]))
	+ sum(v in NODE)(workspace[v] * (step[v] = s))
	- sum(k in PAIR)(size[over[k]] * (taken[k] /\ step[writer[k]] = s)) | s in STEP]);
var 0..total: peak = max(load);

solve minimize peak;
output ["peak = \(peak); step = \(step);\n"];
`

type miniZinc struct {
	*indexed.Graph
	problem *Problem
	w       *bufio.Writer
}

// data writes the problem.
func (m *miniZinc) data() {
	unit := unit(m.Graph)
	fmt.Fprintf(m.w, "%% The smallest peak of %.64q: %d nodes. One unit is %d bytes.\n", m.problem.Name, m.Nodes, unit)
	m.w.WriteString("include \"alldifferent.mzn\";\n\n")
	for v := range m.Nodes {
		fmt.Fprintf(m.w, "%% node %d: %s\n", v, m.problem.node(int32(v)))
	}
	fmt.Fprintf(m.w, "int: nodes = %d;\n", m.Nodes)
	var total int64
	for _, list := range [2][]int64{m.Size, m.Workspace} {
		for _, size := range list {
			total += size / unit
		}
	}
	fmt.Fprintf(m.w, "int: total = %d; %% all sizes\n", total)
	number := make([]int, len(m.Size)) // tensor -> its number among those with bytes
	var size, producer, kept, readers, before, after []string
	for t, bytes := range m.Size {
		r := m.Readers.Of(int32(t))
		if m.Producer[t] >= 0 {
			for _, v := range r {
				before, after = append(before, fmt.Sprint(m.Producer[t])), append(after, fmt.Sprint(v))
			}
		}
		if bytes == 0 {
			continue
		}
		number[t] = len(size)
		size = append(size, fmt.Sprint(bytes/unit))
		producer = append(producer, fmt.Sprint(m.Producer[t]))
		kept = append(kept, fmt.Sprint(m.Output[t]))
		readers = append(readers, "{"+strings.Trim(strings.ReplaceAll(fmt.Sprint(r), " ", ", "), "[]")+"}")
	}
	fmt.Fprintf(m.w, "set of int: TENSOR = 0..%d; %% those with bytes\n", len(size)-1)
	m.array("TENSOR", "int", "size", size)
	m.array("TENSOR", "int", "producer", producer)
	m.array("TENSOR", "bool", "kept", kept)
	m.array("TENSOR", "set of int", "readers", readers)
	var workspace []string
	for _, bytes := range m.Workspace {
		workspace = append(workspace, fmt.Sprint(bytes/unit))
	}
	m.array("0..nodes - 1", "int", "workspace", workspace)
	edges := fmt.Sprintf("0..%d", len(before)-1)
	m.array(edges, "int", "before", before)
	m.array(edges, "int", "after", after)
	var writer, result, over []string
	for _, pair := range m.Pairs {
		writer = append(writer, fmt.Sprint(pair.Node))
		result = append(result, fmt.Sprint(number[pair.Result]))
		over = append(over, fmt.Sprint(number[pair.Over]))
	}
	fmt.Fprintf(m.w, "set of int: PAIR = 0..%d;\n", len(writer)-1)
	m.array("PAIR", "int", "writer", writer)
	m.array("PAIR", "int", "result", result)
	m.array("PAIR", "int", "over", over)
}

// array writes an array over a set of indices.
func (m *miniZinc) array(indices, kind, name string, items []string) {
	fmt.Fprintf(m.w, "array[%s] of %s: %s = array1d(%s, [", indices, kind, name, indices)
	for i, s := range items {
		switch {
		case i == 0:
		case i%20 == 0:
			m.w.WriteString(",\n\t")
		default:
			m.w.WriteString(", ")
		}
		m.w.WriteString(s)
	}
	m.w.WriteString("]);\n")
}
