package training

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan/verify/internal/numbers"
)

// wanted is what a node of the source is in a step: of opset 18 if its own is older, in training mode.
type wanted struct {
	op    string
	in    []operand
	attrs []*graph.Attr
}

// operand is an input of a node: a tensor of the source, or a constant that was an attribute.
type operand struct {
	of      graph.TensorID
	literal *numbers.List
	spread  bool // each of its elements is repeated, by nodes around an Expand
}

// moved lists the attributes that became inputs, and the version in which they did.
var moved = []struct {
	ops   []string
	since int64
	attrs []string // by input, from the second on
}{
	{[]string{"Slice"}, 10, []string{"starts", "ends", "axes"}},
	{[]string{"TopK"}, 10, []string{"k"}},
	{[]string{"Clip"}, 11, []string{"min", "max"}},
	{[]string{"Pad"}, 11, []string{"pads", "value"}},
	{[]string{"Dropout"}, 12, []string{"ratio"}},
	{[]string{"Squeeze", "Unsqueeze", "ReduceSum"}, 13, []string{"axes"}},
	{[]string{"Split"}, 13, []string{"split"}},
	{[]string{
		"ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
	}, 18, []string{"axes"}},
}

// upgraded is what a node of the source has to be in the step, where n makes the same.
func (p *prover) upgraded(n, old *graph.Node) wanted {
	w := wanted{op: old.Op, attrs: old.Attrs}
	for _, t := range trimmed(old.Inputs) {
		w.in = append(w.in, operand{of: t})
	}
	if old.Domain != "" {
		return w
	}
	if p.version < p.to {
		p.renewed(n, old, &w)
	}
	if p.outer != nil || p.inference { // training modes do not change there
		return w
	}
	switch old.Op {
	case "Dropout":
		w.in = append(w.in[:min(len(w.in), 2)], slices.Repeat([]operand{{of: none}}, max(0, 2-len(w.in)))...)
		w.in = append(w.in, operand{literal: &numbers.List{Ints: []int64{1}}})
	case "BatchNormalization":
		if mode := n.Attr("training_mode"); mode != nil && len(n.Outputs) == 3 {
			w.set(&graph.Attr{Name: "training_mode", Type: graph.AttrInt, Int: 1})
		}
	}
	return w
}

// renewed makes of a node of an older version one of the file's.
func (p *prover) renewed(n, old *graph.Node, w *wanted) {
	for _, m := range moved {
		if p.version >= m.since || p.to < m.since || !slices.Contains(m.ops, old.Op) {
			continue
		}
		for k, name := range m.attrs {
			if a := w.take(name); a != nil {
				w.input(k+1, operand{literal: literalOf(a)})
			}
		}
	}
	text := func(name, value string) *graph.Attr {
		return &graph.Attr{Name: name, Type: graph.AttrString, String: value}
	}
	switch old.Op {
	case "BatchNormalization":
		w.take("spatial")
	case "Upsample":
		w.op = "Resize"
		if a := w.take("scales"); a != nil {
			w.input(1, operand{literal: literalOf(a)})
		}
		p.resized(w, text)
	case "Resize":
		p.resized(w, text)
	case "Scatter":
		w.op = "ScatterElements"
	case "GridSample":
		if mode := w.take("mode"); mode != nil && p.version < 20 && p.to >= 20 {
			w.set(text("mode", map[string]string{"bilinear": "linear", "bicubic": "cubic", "nearest": "nearest"}[mode.String]))
		} else if mode != nil {
			w.set(mode)
		}
	case "DFT":
		if axis := int64(1); p.version < 20 && p.to >= 20 {
			if a := w.take("axis"); a != nil {
				axis = a.Int
			}
			w.input(2, operand{literal: &numbers.List{Ints: []int64{axis}}})
		}
	case "GroupNormalization": // a scale and a bias of each group stand for its channels
		for k := 1; k < len(w.in) && p.version < 21 && p.to >= 21; k++ {
			w.in[k].spread = true
		}
	case "Split":
		if len(w.in) < 2 {
			w.set(&graph.Attr{Name: "num_outputs", Type: graph.AttrInt, Int: int64(len(n.Outputs))})
		}
	case "RoiAlign":
		if p.version < 16 {
			w.set(text("coordinate_transformation_mode", "output_half_pixel"))
		}
	case "Softmax", "LogSoftmax", "Hardmax":
		if p.version < 13 && len(n.Inputs) > 0 && n.Inputs[0] >= 0 {
			w.flattened(p.g.Tensors[n.Inputs[0]].Type.Shape)
		}
	}
}

// resized: up to opset 10 the scales were input 1, and the coordinates fixed.
func (p *prover) resized(w *wanted, text func(name, value string) *graph.Attr) {
	if p.version >= 11 || len(w.in) < 2 {
		return
	}
	w.in = []operand{w.in[0], {of: none}, w.in[1]}
	w.set(text("coordinate_transformation_mode", "asymmetric"))
	w.set(text("nearest_mode", "floor"))
}

// flattened: up to opset 12 all axes from the given one on were treated as one. Where at most one of them
// is longer than 1, that is the axis; elsewhere the node stands between two Reshapes.
func (w *wanted) flattened(shape []graph.Dim) {
	axis := int64(1)
	if a := w.take("axis"); a != nil {
		axis = a.Int
	}
	if axis < 0 {
		axis += int64(len(shape))
	}
	long := int64(none)
	for k := max(axis, 0); k < int64(len(shape)); k++ {
		if shape[k] != 1 && long == none {
			long = k
		}
	}
	if long == none {
		long = axis
	}
	w.set(&graph.Attr{Name: "axis", Type: graph.AttrInt, Int: long})
}

// take removes an attribute and returns it; nil if there is none.
func (w *wanted) take(name string) *graph.Attr {
	k := slices.IndexFunc(w.attrs, func(a *graph.Attr) bool { return a.Name == name })
	if k < 0 {
		return nil
	}
	a := w.attrs[k]
	w.attrs = slices.Delete(slices.Clone(w.attrs), k, k+1)
	return a
}

// set sets an attribute.
func (w *wanted) set(a *graph.Attr) {
	w.take(a.Name)
	w.attrs = append(slices.Clone(w.attrs), a)
}

// input sets an input; those before it that are missing are left out.
func (w *wanted) input(k int, o operand) {
	for len(w.in) <= k {
		w.in = append(w.in, operand{of: none})
	}
	w.in[k] = o
}
