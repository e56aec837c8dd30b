package exact

import (
	"math/rand/v2"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// Downsets is dynamic programming over the downsets of a problem, step by step: of all
// orders of the same nodes it keeps only one of the smallest peak, and drops states that
// exceed a limit.
type Downsets struct {
	Width int // states of one step at most
	Moves int // from a state to the next that are left, in all calls; large states count more

	g      *indexed.Problem
	name   []hash  // node -> its part of the name of a set
	unread []int32 // scratch of need, by tensor
}

// ending says how a try within a limit ended.
type ending int

const (
	solved  ending = iota // a best order
	tooLow                // no order stays within the limit
	tooMany               // more states or moves than are allowed
)

// frontier is the states of one step.
type frontier struct {
	words int
	ran   []uint64      // words of each state: the nodes that have run
	ready indexed.Lists // state -> nodes
	live  []int64
	peak  []int64 // so far
	name  []hash
	at    map[hash]int32
}

// move is how a state was reached: the node that ran last, from which state of
// the step before.
type move struct{ from, node int32 }

// Best returns an order of g of the smallest peak by adaptive soft budgeting, as the Serenity
// paper calls it. A limit within which the states become too many is lowered, a limit that no
// order keeps is raised, each to the middle of the interval left. Most is the peak of some
// order. A limit that admits the best order loses nothing, so the order found is optimal.
// Best returns nil if the moves are used up, or if no limit is left to try.
func (d *Downsets) Best(g *indexed.Problem, most int64) []int32 {
	grain := g.Granularity()
	low, high := int64(-1), most // nothing within low; too many states within high
	for limit := most; d.Moves > 0; limit = (low + (high-low)/2) / grain * grain {
		if limit <= low {
			return nil
		}
		order, end := d.within(g, limit)
		switch end {
		case solved:
			return order
		case tooLow:
			low = limit
		case tooMany:
			high = limit
		}
		if high-low <= grain {
			return nil
		}
	}
	return nil
}

// within returns an order of the smallest peak if that is within the limit.
func (d *Downsets) within(g *indexed.Problem, limit int64) ([]int32, ending) {
	d.begin(g)
	now := &frontier{words: (g.Nodes + 63) / 64}
	now.ran = make([]uint64, now.words)
	now.live, now.peak, now.name = []int64{g.LiveFirst()}, []int64{0}, []hash{{}}
	for v := range int32(g.Nodes) {
		if len(g.Preds.Of(v)) == 0 {
			now.ready.Items = append(now.ready.Items, v)
		}
	}
	now.ready.Add()
	steps := make([][]move, g.Nodes)
	for i := range steps {
		next := &frontier{words: now.words, at: map[hash]int32{}}
		idle := int64(0)
		if i == 0 {
			idle = g.Idle
		}
		for s := range int32(len(now.live)) {
			for _, v := range now.ready.Of(s) {
				if d.Moves <= 0 {
					return nil, tooMany
				}
				d.Moves--
				peak := max(now.peak[s], now.live[s]+idle+d.need(now, s, v))
				if peak > limit {
					continue
				}
				name := hash{now.name[s][0] ^ d.name[v][0], now.name[s][1] ^ d.name[v][1]}
				if x, known := next.at[name]; known {
					if peak < next.peak[x] {
						next.peak[x], steps[i][x] = peak, move{s, v}
					}
					continue
				}
				if len(next.live) == d.Width {
					return nil, tooMany
				}
				d.Moves -= (now.words + len(now.ready.Of(s))) / 128
				next.at[name] = int32(len(next.live))
				next.name = append(next.name, name)
				next.peak = append(next.peak, peak)
				d.extend(now, next, s, v)
				steps[i] = append(steps[i], move{s, v})
			}
		}
		if len(next.live) == 0 {
			return nil, tooLow
		}
		now = next
	}
	order := make([]int32, g.Nodes)
	s := int32(0)
	for i := len(steps) - 1; i >= 0; i-- {
		order[i] = steps[i][s].node
		s = steps[i][s].from
	}
	return order, solved
}

func (d *Downsets) begin(g *indexed.Problem) {
	d.g = g
	d.unread = indexed.Resize(d.unread, len(g.Size))
	if len(d.name) < g.Nodes {
		d.name = make([]hash, g.Nodes)
		r := rand.New(rand.NewPCG(1, 2))
		for v := range d.name {
			d.name[v] = hash{r.Uint64(), r.Uint64()}
		}
	}
}

func (f *frontier) has(s, v int32) bool {
	return f.ran[int(s)*f.words+int(v/64)]>>(v%64)&1 == 1
}

// need returns what v adds to the live bytes of a state while it runs.
func (d *Downsets) need(f *frontier, s, v int32) int64 {
	g := d.g
	if g.SavingsAt == nil || g.SavingsAt[v] == 0 {
		return g.Transient[v]
	}
	for _, t := range g.Reads.Of(v) {
		d.unread[t] = d.waiting(f, s, t)
	}
	return g.Need(v, d.unread, 1)
}

// waiting returns how many readers of a tensor have not run.
func (d *Downsets) waiting(f *frontier, s, t int32) (n int32) {
	for _, r := range d.g.Readers.Of(t) {
		if !f.has(s, r) {
			n++
		}
	}
	return n
}

// extend adds the state that v makes of state s.
func (d *Downsets) extend(f, next *frontier, s, v int32) {
	g := d.g
	x := int32(len(next.live))
	next.ran = append(next.ran, f.ran[int(s)*f.words:int(s+1)*f.words]...)
	next.ran[int(x)*f.words+int(v/64)] |= 1 << (v % 64)
	live := f.live[s]
	for _, t := range g.Makes.Of(v) {
		live += g.Size[t]
	}
	for _, t := range g.Reads.Of(v) {
		if !g.Output[t] && d.waiting(next, x, t) == 0 {
			live -= g.Size[t]
		}
	}
	next.live = append(next.live, live)
	for _, r := range f.ready.Of(s) {
		if r != v {
			next.ready.Items = append(next.ready.Items, r)
		}
	}
	for _, w := range g.Succs.Of(v) {
		ready := true
		for _, u := range g.Preds.Of(w) {
			ready = ready && next.has(x, u)
		}
		if ready {
			next.ready.Items = append(next.ready.Items, w)
		}
	}
	next.ready.Add()
}
