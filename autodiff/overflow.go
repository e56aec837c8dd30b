package autodiff

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// repeatGradients computes gradients again for their updates, where these wait for the check for
// overflow and the step would otherwise need more memory than in float32: at small batches, all
// gradients together are larger than what the forward pass keeps, while a step without the check holds
// one at a time. A gradient then dies after its check, and what it is made of stays, where that is much
// smaller. As few as needed are repeated, first those that take the fewest operations for their bytes.
// checks are the tensors that are checked for each gradient.
func (s *trainer) repeatGradients(checks [][]ID) {
	if s.opt.Accumulate > 1 || s.opt.ClipNorm > 0 || s.opt.KeepGradients || !s.saves(savingCast) {
		return // gradients wait for more than the check
	}
	list := make([]*waiting, len(s.reduced))
	for i, d := range s.reduced {
		list[i] = &waiting{index: i, from: s.dividend(d), wide: s.bytes(d), checks: checks[i]}
		for _, t := range checks[i] {
			list[i].held += s.bytes(t)
		}
	}
	loads := s.loadsOf(list)
	if loads.need() == loads.goal {
		return
	}
	for _, w := range list {
		s.repeatable(w)
	}
	list = slices.DeleteFunc(list, func(w *waiting) bool { return w.by == nil })
	slices.SortStableFunc(list, func(a, b *waiting) int {
		byCost := cmp.Compare(float64(a.cost)*float64(b.held), float64(b.cost)*float64(a.held))
		return cmp.Or(byCost, cmp.Compare(b.held, a.held))
	})
	for _, w := range list {
		if w.repeated = true; loads.need() == loads.goal {
			break
		}
	}
	loads.goal = loads.need()                 // of all, if that does not suffice
	for _, w := range slices.Backward(list) { // one that follows may have made it needless
		if w.repeated {
			w.repeated = false
			w.repeated = loads.need() > loads.goal
		}
	}
	for _, w := range list {
		if w.repeated && s.err == nil {
			s.repeatGradient(w)
		}
	}
}

// repeatable finds out how a gradient can be made again, if what it is made of is less than half of it.
func (s *trainer) repeatable(w *waiting) {
	r := &repetition{trainer: s, size: elements(s.shape(s.reduced[w.index])), leaves: map[ID]bool{}, done: map[ID]ID{}}
	if w.from == graph.None || !r.reaches(w.from) {
		return
	}
	kept := int64(0)
	for t := range r.leaves {
		kept += s.bytes(t)
	}
	if 2*kept > w.held {
		return
	}
	for _, n := range r.nodes {
		w.cost += n.Semantics.FLOPs
	}
	w.by = r
}

// repeatGradient lets an update read its gradient made again.
func (s *trainer) repeatGradient(w *waiting) {
	d := s.reduced[w.index]
	name := s.g.Tensors[d].Name
	s.phase, s.of, s.scope = phaseBackward, s.g.Tensors[s.parameters[w.index]].Name, name+"/again/"
	again := s.mul(w.by.emit(), s.unscale)
	if s.err != nil {
		return
	}
	s.g.Tensors[d].Name = s.unique(name + ".checked")
	s.g.Tensors[again].Name = name
	s.reduced[w.index], s.grads[w.index] = again, again
}

// checks are the tensors that are finite if a gradient is: itself, or what it is made of in 16 bits, in
// whatever order, or the rows that are added into a table, whose magnitudes are added up in any case. A gradient that is not read
// itself is made when its parameter is updated.
func (s *trainer) checks(d ID) []ID {
	from := s.dividend(d)
	if from == graph.None || !s.saves(savingCast) {
		return []ID{d}
	}
	var list []ID
	for {
		n := s.makers[from]
		if n != nil && ops.Casts(n) && is16Bits(s.typeOf(n.Inputs[0]).Elem) {
			return append(list, n.Inputs[0])
		}
		if n != nil && ops.Rearranges(n) {
			from = n.Inputs[0]
			continue
		}
		_, rows, scattered := s.scattered(from)
		if scattered {
			return append(list, rows)
		}
		if n == nil || n.Op != "ScatterND" || n.Domain != "" || len(n.Inputs) != 3 {
			return append(list, from)
		}
		if by := n.Attr("reduction"); by == nil || by.String != "add" {
			return append(list, from)
		}
		list, from = append(list, n.Inputs[2]), n.Inputs[0]
	}
}

// dividend is the float32 tensor that the loss scale divides to make a gradient, None if there is none.
func (s *trainer) dividend(d ID) ID {
	n := s.makers[d]
	if n != nil && ops.Copies(n) { // it names the gradient
		n = s.makers[n.Inputs[0]]
	}
	if n == nil || n.Op != "Mul" || n.Domain != "" || n.Inputs[1] != s.unscale {
		return graph.None
	}
	return n.Inputs[0]
}

// bytes is the size of a tensor.
func (s *trainer) bytes(t ID) int64 {
	return elements(s.shape(t)) * int64(s.typeOf(t).Elem.Bits()) / 8
}

// repetition makes a gradient again, in float32.
type repetition struct {
	*trainer
	size   int64 // elements of the gradient
	nodes  []*graph.Node
	leaves map[ID]bool // what the nodes read: smaller tensors
	done   map[ID]ID   // of what nodes make: the copy
}

// again are the operators of which gradients of matrices, convolutions and tables are made.
var again = []string{"Gemm", "MatMul", graph.ConvWeightGrad, "ScatterND", "ConstantOfShape", "Cast", "Reshape", "Transpose", "Add", "Identity"}

// reaches reports whether a tensor can be made again from tensors of less than half of its size, and
// notes the nodes for that, in their order.
func (r *repetition) reaches(t ID) bool {
	if r.g.Tensors[t].Data != nil {
		return true
	}
	if _, known := r.done[t]; known || r.leaves[t] {
		return true
	}
	n := r.makers[t]
	if 2*elements(r.shape(t)) < r.size {
		r.leaves[t] = true
		return true
	}
	if n == nil || len(n.Outputs) != 1 || !slices.Contains(again, n.Op) {
		return false
	}
	for _, in := range n.Inputs {
		if in == graph.None || !r.reaches(in) {
			return false
		}
	}
	r.done[t] = graph.None
	r.nodes = append(r.nodes, n)
	return true
}

// emit emits the nodes again. Products of 16 bits are made in float32: the gradient would be there twice
// while it is widened, and whether it overflows in 16 bits is known.
func (r *repetition) emit() (t ID) {
	for _, n := range r.nodes {
		in := slices.Clone(n.Inputs)
		for k, x := range in {
			if y, made := r.done[x]; made {
				in[k] = y
			}
		}
		out := n.Outputs[0]
		switch {
		case ops.Casts(n):
			t = r.castLike(in[0], out)
		case ops.IsProduct(n):
			for k, x := range in {
				in[k] = r.widened(x)
			}
			fallthrough
		default:
			t = r.emitIn(n.Domain, n.Op, attrsOf(n), 1, in...)[0]
		}
		r.done[out] = t
	}
	return t
}
