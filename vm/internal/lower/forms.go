package lower

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// A weight that products read in one packed form takes as much memory as before: its pages in the
// file are given back. In two forms, as a frozen weight has in a training step, once for the result
// and once for the gradient of the input, or when it is dequantized, it would take more than the plan
// says. Such a weight is packed, or dequantized, at every run, piece by piece, unless
// Options.PackMore is set.

// oneForm reports whether weights are packed in one form at most, and in no more bytes than the file has.
func (s *Site) oneForm() bool { return !s.Options.NoPack && !s.Options.PackMore && s.GPU == nil }

// packedUse is a way in which a node reads a weight: what rearranges it on the way, the operator, and the input.
type packedUse struct {
	way, domain, op string
	input           int
	transA, transB  int64
}

// findForms marks the constants that products of a frame would pack in several forms, and what
// is made of them.
func (f *Frame) findForms() {
	type made struct { // of a constant
		of  graph.TensorID
		way string
	}
	from := map[graph.TensorID]made{}
	of := func(id graph.TensorID) (made, bool) {
		m, is := from[id]
		if !is && id >= 0 && f.Graph.Tensors[id].Maker < 0 && f.Tensors[id] != nil && f.Tensors[id].Const {
			return made{of: id}, true
		}
		return m, is
	}
	first, several := map[graph.TensorID]packedUse{}, map[graph.TensorID]bool{}
	order, _ := f.Graph.Topological()
	for _, id := range order {
		n := f.Graph.Nodes[id]
		for i, in := range n.Inputs {
			m, is := of(in)
			switch {
			case !is:
			case i == 0 && ops.OnWeights(n):
				from[n.Outputs[0]] = made{m.of, m.way + wayOf(n)}
			case ops.Prepares(n):
				u := packedUse{m.way, n.Domain, n.Op, i, intOf(n, "transA"), intOf(n, "transB")}
				if known, is := first[m.of]; !is {
					first[m.of] = u
				} else if known != u {
					several[m.of] = true
				}
			}
		}
	}
	for root := range several {
		f.Tensors[root].Several = true
	}
	for id, m := range from {
		if several[m.of] && f.Tensors[id] != nil {
			f.Tensors[id].Several = true
		}
	}
}

// wayOf names what a node between a weight and its readers does.
func wayOf(n *graph.Node) string {
	if a := n.Attr("perm"); a != nil {
		return fmt.Sprint(n.Op, a.Ints)
	}
	return n.Op
}

func intOf(n *graph.Node, name string) int64 {
	if a := n.Attr(name); a != nil {
		return a.Int
	}
	return 0
}

// freeWidening is how many bytes of a program's computed constants may be there beyond those that they
// are computed from, whose pages are given back: so many that small models are as fast as with
// Options.PackMore, and the estimate of a process has room for them.
const freeWidening = 2 << 20

// mayCompute reports whether the constant that a step computes may stay: it has one packed form, and no
// more bytes than what it is made of, or few more.
func (b *builder) mayCompute(st *Step) bool {
	if !b.s.oneForm() {
		return true
	}
	out := st.Out[0]
	if out.Several {
		return false
	}
	more := int64(out.Bytes())
	for _, t := range st.In {
		if t != nil {
			more -= int64(t.Bytes())
		}
	}
	origin := b.origin(st)
	if more <= 0 || b.s.widens[origin] {
		return true
	}
	if b.s.widened+more > freeWidening {
		return false
	}
	if b.s.widens == nil {
		b.s.widens = map[*graph.Tensor]bool{}
	}
	b.s.widened += more
	b.s.widens[origin] = true
	return true
}
