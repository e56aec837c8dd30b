package limits

import (
	"context"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
)

// The scores of a vocabulary, and what a loss makes of them, may be the largest tensors of a
// training step: Llama-3-8B has 128,256 scores for each token. From the product that makes them to
// the products of their gradient, the loss is computed row by row, so that one region of slices
// has all of it.

// The slices of a loss are the fewest in which the largest of its tensors takes at most the share
// lossPart of the peak, but no more than lossSlices, whose nodes take time to plan, and none that
// take more than the share lossMost of the time.
const (
	lossPart   = 1.0 / 256
	lossSlices = 32
	lossMost   = 0.01
)

// lossLeast is the share of the peak from which on the scores of a loss are worth a region where
// a limit is asked for.
const lossLeast = 1.0 / 64

// lossPlace is where a program computes its loss: the window from the product that makes its
// scores to the last node that reads what has an element for each of them.
type lossPlace struct {
	start, end int
	seed       int   // the last node of the loss that makes its largest tensor
	bytes      int64 // of that
	load       int64 // the largest in the window
	widened    bool  // the scores are cast from 16 bits
}

// newLossSlicer returns a slicer of the model in its own order, in which a step has a loss and its
// gradient side by side, and where the loss is; nil if there is none.
func (s *Task) newLossSlicer(ctx context.Context) (*slicer, lossPlace, error) {
	if v := lossSeed(s.Model.Graph); v < 0 {
		return nil, lossPlace{}, nil
	}
	x := s.startSlicer()
	quick := s.search().Quick()
	quick.Strategy = "program"
	var err error
	if x.base, err = s.inOrder(ctx, x.base.Model, quick); err != nil {
		return nil, lossPlace{}, err
	}
	x.time = x.base.Time
	x.search = slicing.NewSearch(x.program(), windowReach)
	at, found := x.lossPlace()
	if !found {
		return nil, at, nil
	}
	return x, at, nil
}

// lossSeed is the last node of a loss that makes its largest tensor, -1 if there is none.
func lossSeed(g *graph.Graph) int {
	seed, most := -1, int64(0)
	for v, n := range g.Nodes {
		if of, _ := n.Prop("onnxmem.of"); of != "loss" || len(n.Outputs) == 0 || n.Outputs[0] < 0 {
			continue
		}
		if bytes := g.Tensors[n.Outputs[0]].Bytes; bytes > 0 && bytes >= most {
			seed, most = v, bytes
		}
	}
	return seed
}

// lossStart finds the loss and what makes its scores; end and load are not known yet. whole reports
// whether a tensor has an element for each score.
func lossStart(g *graph.Graph) (at lossPlace, whole func(graph.TensorID) bool, found bool) {
	if at.seed = lossSeed(g); at.seed < 0 {
		return at, nil, false
	}
	t := g.Nodes[at.seed].Outputs[0]
	at.bytes = g.Tensors[t].Bytes
	size, known := g.Tensors[t].Type.Elements()
	if !known {
		return at, nil, false
	}
	whole = func(t graph.TensorID) bool {
		if t < 0 {
			return false
		}
		n, _ := g.Tensors[t].Type.Elements()
		return n == size
	}
	at.start = at.seed
	for whole(t) && g.Tensors[t].Maker >= 0 { // back to the product
		at.start = int(g.Tensors[t].Maker)
		n := g.Nodes[at.start]
		if ops.IsProduct(n) || len(n.Inputs) == 0 {
			break
		}
		from := n.Inputs[0]
		at.widened = at.widened || ops.Casts(n) && from >= 0 && isHalf(g.Tensors[from].Type.Elem) && g.Tensors[t].Type.Elem.Bits() > 16
		t = from
	}
	return at, whole, true
}

func isHalf(e graph.DType) bool { return e.Floating() && e.Bits() == 16 }

// lossPlace finds the loss. It ends at products: a weight's gradient may have as many elements as the
// scores, too.
func (x *slicer) lossPlace() (at lossPlace, found bool) {
	g := x.base.Main.G
	at, whole, found := lossStart(g)
	if !found {
		return at, false
	}
	at.end = at.seed
	reached := map[graph.TensorID]bool{}
	for v := at.start; v < len(g.Nodes) && v < at.start+windowReach; v++ {
		n, reads := g.Nodes[v], v == at.start
		n.Reads(func(t graph.TensorID) { reads = reads || reached[t] })
		if !reads {
			continue
		}
		at.end = max(at.end, v)
		if ops.IsProduct(n) && v > at.start {
			continue
		}
		for _, t := range n.Outputs {
			if whole(t) {
				reached[t] = true
			}
		}
	}
	for v := at.start; v <= at.end; v++ {
		at.load = max(at.load, x.base.Main.Loads.Loads[v])
	}
	return at, true
}

// lossBase returns the graph with the loss in slices, in its best order; nil if no region of it is
// cheap enough.
func (x *slicer) lossBase(ctx context.Context, at lossPlace) (*Base, error) {
	var best *slicing.Pick
	for _, p := range x.search.Around(at.start, at.end, at.seed, lossSlices) {
		if p.Extra <= lossMost*x.time && (best == nil || p.Slices > best.Slices && float64(at.bytes) > lossPart*float64(x.base.Main.Loads.Peak)*float64(best.Slices)) {
			best = p
		}
	}
	if best == nil {
		return nil, nil
	}
	m := &slicedModel{choices: x.search.Choices([]*slicing.Pick{best}), from: x}
	b := &Base{s: x.s, sliced: m}
	if err := b.order(ctx); err != nil {
		return nil, err
	}
	b.Time = x.s.Costs.Time(b.Main.G)
	m.extra, m.peak, m.bound = x.more(&b.Trial), b.Main.Loads.Peak, b.Main.Solved.Bound
	return b, nil
}
