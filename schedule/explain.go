package schedule

import (
	"cmp"
	"context"
	"runtime"
	"slices"

	"github.com/onnxmem/onnxmem/internal/bug"
	"github.com/onnxmem/onnxmem/internal/match"
	"github.com/onnxmem/onnxmem/schedule/internal/bounds"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
)

// Explanation explains the peak of an order: which buffers are live there, why no order has
// a peak below the bound, and what would lower both.
type Explanation struct {
	Peak     int64 // bytes
	PeakStep int   // the first step of the largest load
	PeakNode int32 // the node that runs there; -1: the problem has no nodes
	Bound    int64 // bytes; the peak of no order is smaller
	Live     []Holding
	Proofs   []Proof
	Relief   []Relief // the best first
}

// Holding is a buffer that is live while a node runs. It holds one tensor, or a tensor that
// the node reads and the result that it writes over it, or the node's workspace.
type Holding struct {
	Tensors []int32 // empty: a workspace
	Bytes   int64
	Maker   int32   // the node that makes the first of the tensors; -1: an input
	Keepers []int32 // readers that have not run: the running node, nodes that must run after it, others
	Output  bool    // it is live to the last step

	// Forced is set if the buffer is live while the node runs in every order: its maker
	// must run before the node, and it is an output or a reader must run with the node or
	// after it.
	Forced bool
}

// Proof shows a certificate by a state: the node of the certificate that can run at the least
// load, and the buffers that are live while it runs from the state of that load. In every
// other state from which it may run, as many bytes or more are live: the state is a
// minimum cut.
type Proof struct {
	Certificate
	Node   int32     // -1: the certificate names no node
	Before int       // how many nodes run before Node in every order
	After  int       // how many run after it in every order
	Ran    int       // how many have run in the state
	Live   []Holding // the buffers that are live while Node runs
}

// Relief has the bound and the peak of the problem without a buffer that is live at the
// peak, and with half of it.
type Relief struct {
	Holding
	Absent, Half Outlook
}

// Outlook is a proven bound on the peak of all orders and the peak of the best order found.
type Outlook struct {
	Bound, Peak int64
	Kind        string // of the certificate; empty: the least load of the first or the last step
}

// ExplainOptions control [Explain].
type ExplainOptions struct {
	Options
	Most  int   // for how many of the largest buffers at the peak Relief is computed
	Align int64 // half a size is rounded up to a multiple of this many bytes; 0 is 1
}

// Explain explains an order. The certificates prove its bound; they come from [Solve] or
// have the same form. Explain fails if p is not valid or order is not an order of it.
// Relief takes two runs of Solve for each buffer and uses all cores.
//
// The bound without a tensor also limits what recomputation can do. It holds for every order
// of the problem in which the tensor takes 0 bytes. Take a plan that recomputes the tensor
// (if its node makes nothing else), swaps it out and in, or writes it over another. Without
// the repeated run or the transfer, it is an order of that problem, and its loads there are
// no larger. So no such plan has a peak below that bound.
func Explain(ctx context.Context, p *Problem, order []int32, certificates []Certificate, opt ExplainOptions) (*Explanation, error) {
	e, err := p.Evaluate(order)
	if err != nil {
		return nil, err
	}
	f := index(p)
	x := &Explanation{Peak: e.Peak, PeakStep: e.PeakStep, PeakNode: -1}
	ran := make([]bool, f.Nodes)
	if f.Nodes > 0 {
		x.PeakNode = order[e.PeakStep]
		for _, v := range order[:e.PeakStep] {
			ran[v] = true
		}
	}
	w := newExplainer(f)
	w.around(x.PeakNode)
	x.Live = w.holdings(ran, x.PeakNode, e.PeakStep == 0)
	for _, c := range certificates {
		x.Bound = max(x.Bound, c.Value)
		x.Proofs = append(x.Proofs, w.proof(c))
	}
	if len(certificates) == 0 {
		x.Bound, _ = bounds.Simple(f)
	}
	x.Relief, err = x.relief(ctx, p, order, opt)
	return x, err
}

// relief solves the problem without each of the largest buffers and with half of each.
func (x *Explanation) relief(ctx context.Context, p *Problem, order []int32, opt ExplainOptions) ([]Relief, error) {
	list := []Relief{}
	for _, h := range x.Live {
		if len(h.Tensors) > 0 && len(list) < opt.Most {
			list = append(list, Relief{Holding: h})
		}
	}
	errs := make([]error, 2*len(list))
	jobs := make(chan int, len(errs))
	for i := range errs {
		jobs <- i
	}
	close(jobs)
	var group bug.Group
	for range min(runtime.GOMAXPROCS(0), len(errs)) {
		group.Go(func() {
			for i := range jobs {
				r := &list[i/2]
				to, size := &r.Absent, int64(0)
				if i%2 == 1 {
					to, size = &r.Half, half(r.Bytes, opt.Align)
				}
				*to, errs[i] = x.outlook(ctx, p, order, r.Holding, size, opt.Options)
			}
		})
	}
	group.Wait()
	slices.SortStableFunc(list, func(a, b Relief) int {
		return cmp.Or(cmp.Compare(a.Absent.Bound, b.Absent.Bound), cmp.Compare(a.Absent.Peak, b.Absent.Peak), cmp.Compare(a.Half.Bound, b.Half.Bound))
	})
	return list, cmp.Or(errs...)
}

// half returns half a size, rounded up, but at most the size.
func half(bytes, align int64) int64 {
	align = max(align, 1)
	return min(bytes, (bytes-bytes/2+align-1)/align*align)
}

// outlook solves the problem with another size of a buffer. Two facts are known before: the
// peak of the given order, and, for size 0, that no load falls by more than the size of
// the buffer's tensors, so the bound does not either. (At half its size, a tensor may form
// in-place pairs that it did not form before, so the second fact need not hold.)
func (x *Explanation) outlook(ctx context.Context, p *Problem, order []int32, h Holding, bytes int64, opt Options) (Outlook, error) {
	q := *p
	q.Tensors = slices.Clone(p.Tensors)
	for _, t := range h.Tensors {
		q.Tensors[t].Bytes = bytes
	}
	var o Outlook
	e, err := q.Evaluate(order)
	if err != nil {
		return o, err
	}
	opt.Strategy, opt.Progress, opt.BoundTime = "", nil, nil
	r, err := Solve(ctx, &q, opt)
	if err != nil {
		return o, err
	}
	o.Bound, o.Peak = r.Bound, min(e.Peak, r.Evaluation.Peak)
	if len(r.Certificates) > 0 {
		o.Kind = r.Certificates[0].Kind
	}
	if least := x.Bound - int64(len(h.Tensors))*h.Bytes; bytes == 0 && least > o.Bound {
		o.Bound, o.Kind = least, ""
		if len(x.Proofs) > 0 {
			o.Kind = x.Proofs[0].Kind
		}
	}
	return o, nil
}

// explainer finds states that show certificates, which a reader can check by addition.
type explainer struct {
	f        *indexed.Graph
	g        *indexed.Problem // nil: too large for cuts
	preds    indexed.Lists
	succs    indexed.Lists
	cut      *bounds.Cutter
	match    *match.Matcher
	mustRun  []bool // nodes that run before the node given to around, in every order
	mustWait []bool // nodes that run after it, in every order
}

func newExplainer(f *indexed.Graph) *explainer {
	w := &explainer{f: f, cut: bounds.NewCutter(meter.New(context.Background())), preds: f.Precedence(), match: match.New(len(f.Size))}
	w.succs = w.preds.Inverse(f.Nodes)
	if g := indexed.NewProblem(f); !g.TooLarge() {
		w.g = g
	}
	return w
}

// around marks the nodes that run before a node in every order, and those that run after.
func (w *explainer) around(v int32) {
	w.mustRun, w.mustWait = reached(v, w.preds, w.f.Nodes), reached(v, w.succs, w.f.Nodes)
}

// reached marks the nodes that can be reached from v, without v, which may be -1.
func reached(v int32, next indexed.Lists, nodes int) []bool {
	seen := make([]bool, nodes)
	if v < 0 {
		return seen
	}
	stack := []int32{v}
	for len(stack) > 0 {
		u := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, x := range next.Of(u) {
			if !seen[x] {
				seen[x] = true
				stack = append(stack, x)
			}
		}
	}
	return seen
}

// proof returns a certificate with the state that shows it.
func (w *explainer) proof(c Certificate) Proof {
	p := Proof{Certificate: c, Node: -1}
	if len(c.Nodes) == 0 || w.g == nil && c.Kind != KindCut {
		return p
	}
	ran, first := make([]bool, w.f.Nodes), false
	if w.g == nil {
		p.Node = c.Nodes[0]
		copy(ran, reached(p.Node, w.preds, w.f.Nodes))
	} else {
		p.Node, first = w.cut.ProvingState(w.g, bounds.Certificate(c), ran)
	}
	w.around(p.Node)
	p.Before, p.After, p.Ran = count(w.mustRun), count(w.mustWait), count(ran)
	p.Live = w.holdings(ran, p.Node, first)
	return p
}

func count(set []bool) (n int) {
	for _, x := range set {
		if x {
			n++
		}
	}
	return n
}

// holdings returns the buffers that are live while v runs after the nodes of ran, the
// largest first. Their sizes sum to the load. Inputs that nobody reads are included only if
// first is set. With v = -1 it returns all inputs.
func (w *explainer) holdings(ran []bool, v int32, first bool) []Holding {
	var list []Holding
	for t := range w.f.Size {
		h := Holding{Tensors: []int32{int32(t)}, Bytes: w.f.Size[t], Maker: w.f.Producer[t], Output: w.f.Output[t]}
		if h.Bytes == 0 || h.Maker >= 0 && h.Maker != v && !ran[h.Maker] {
			continue
		}
		for _, r := range w.f.Readers.Of(int32(t)) {
			if !ran[r] {
				h.Keepers = append(h.Keepers, r)
			}
		}
		slices.SortStableFunc(h.Keepers, func(a, b int32) int { return w.rank(a, v) - w.rank(b, v) })
		idle := h.Maker < 0 && !w.f.Kept(int32(t)) && (first || v < 0)
		if made := v >= 0 && h.Maker == v; len(h.Keepers) == 0 && !h.Output && !made && !idle {
			continue
		}
		here := h.Maker == v || slices.Contains(h.Keepers, v)
		h.Forced = here || (h.Maker < 0 || w.mustRun[h.Maker]) &&
			(h.Output || slices.ContainsFunc(h.Keepers, func(r int32) bool { return w.mustWait[r] }))
		list = append(list, h)
	}
	if v >= 0 {
		list = w.share(list, ran, v)
		if w.f.Workspace[v] > 0 {
			list = append(list, Holding{Bytes: w.f.Workspace[v], Maker: v, Forced: true})
		}
	}
	slices.SortStableFunc(list, func(a, b Holding) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return list
}

// rank ranks v first, then the nodes that run after it in every order. Only these keep a
// tensor live in every order.
func (w *explainer) rank(reader, v int32) int {
	switch {
	case reader == v:
		return 0
	case w.mustWait[reader]:
		return 1
	}
	return 2
}

// share merges the holdings of each result that v writes over a tensor and of that tensor,
// for the pairs that [Problem.Evaluate] takes.
func (w *explainer) share(list []Holding, ran []bool, v int32) []Holding {
	var free []Pair
	for _, pair := range w.f.PairsOf(v) {
		if !slices.ContainsFunc(w.f.Readers.Of(pair.Over), func(r int32) bool { return r != v && !ran[r] }) {
			free = append(free, pair)
		}
	}
	at := map[int32]int{}
	for i, h := range list {
		at[h.Tensors[0]] = i
	}
	for _, pair := range w.match.Largest(nil, free) {
		over, result := &list[at[pair.Over]], &list[at[pair.Result]]
		over.Tensors = append(over.Tensors, result.Tensors...)
		over.Keepers = append(over.Keepers, result.Keepers...)
		over.Output = result.Output
		result.Bytes = 0
	}
	return slices.DeleteFunc(list, func(h Holding) bool { return h.Bytes == 0 })
}
