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

// Explanation says why an order needs what it needs: what lives at its peak, why
// no order needs less than the bound, and what would lower both.
type Explanation struct {
	Peak     int64 // bytes
	PeakStep int   // the first step of the largest load
	PeakNode int32 // the node that runs there; -1: the problem has none
	Bound    int64 // bytes; the peak of no order is smaller
	Live     []Holding
	Proofs   []Proof
	Relief   []Relief // the best first
}

// Holding is what one buffer holds while a node runs: a tensor, or a tensor that
// the node reads and the result that it writes over it; or its workspace.
type Holding struct {
	Tensors []int32 // none: workspace
	Bytes   int64
	Maker   int32   // the node that makes the first of the tensors; -1: none, it is there from the start
	Keepers []int32 // nodes that read it and have not run: the one that runs, those that must run after it, others
	Output  bool    // it lives to the last step
	// Forced: whatever the order, it is live while that node runs, since its maker
	// runs before and a reader runs then or after, or it is an output.
	Forced bool
}

// Proof is a certificate in terms of a state that shows it: the node, of all the
// certificate's nodes, that can run at the least load, and what lives while it
// runs from the state in which that is so. Any other state that it may run from
// holds as much or more: that is the minimum cut.
type Proof struct {
	Certificate
	Node   int32     // -1: the certificate names none
	Before int       // how many nodes must have run before Node, in any order
	After  int       // how many can run only after it
	Ran    int       // how many have run in that state
	Live   []Holding // what lives while Node runs from it
}

// Relief is what the bound and the peak would be if a buffer that lives at the
// peak were not there, or half as large.
type Relief struct {
	Holding
	Absent, Half Outlook
}

// Outlook is what is known of a problem: the bound is proven for all orders, the
// peak is that of an order that was found.
type Outlook struct {
	Bound, Peak int64
	Kind        string // of the certificate; empty: the least load of the first or the last step
}

// ExplainOptions says how much is looked at.
type ExplainOptions struct {
	Options
	Most  int   // so many of the largest buffers at the peak are looked at for relief
	Align int64 // half a size is rounded up to a multiple of it; 0 is 1
}

// Explain explains an order whose bound the certificates prove: those of [Solve],
// or others of the same form. Relief takes two runs of Solve for each buffer, on
// all cores.
//
// What the bound without a tensor says: no order of the problem in which that
// tensor takes no bytes has a smaller peak. So the tensor's node run again (if it
// makes nothing else), the tensor moved out and back, or written over another
// can bring the peak of an order no lower: without the repetition or the
// transfer it is an order of that problem, and its loads are not above.
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

// relief solves the problem without each of the largest buffers, and with half
// of it.
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

// half is half a size, rounded up.
func half(bytes, align int64) int64 {
	align = max(align, 1)
	return min(bytes, (bytes-bytes/2+align-1)/align*align)
}

// outlook solves the problem with a buffer at another size. What is known of it
// before: the order's loads, and that without the buffer no load falls by more
// than its tensors take. (At another size than 0 it may be one of a pair that was
// none before.)
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

// explainer finds states that show certificates: a reader can check them by adding up.
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

// proof returns the state that shows a certificate.
func (w *explainer) proof(c Certificate) Proof {
	p := Proof{Certificate: c, Node: -1}
	if len(c.Nodes) == 0 || w.g == nil && c.Kind != KindCut {
		return p
	}
	ran := make([]bool, w.f.Nodes)
	if w.g == nil {
		p.Node = c.Nodes[0]
		copy(ran, reached(p.Node, w.preds, w.f.Nodes))
	} else {
		p.Node = w.cut.ProvingState(w.g, bounds.Certificate(c), ran)
	}
	w.around(p.Node)
	p.Before, p.After, p.Ran = count(w.mustRun), count(w.mustWait), count(ran)
	p.Live = w.holdings(ran, p.Node, false)
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

// holdings lists what is live while v runs after the nodes of ran, the largest first. The
// sizes add up to the load. Inputs that nobody reads are live at the first step alone. With
// v = -1 it lists all inputs.
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

// rank puts v first, then the nodes that run after it in every order: they alone keep a
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

// share makes one holding of a result that v writes over a tensor and of that tensor, as
// [Problem.Evaluate] counts them.
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
