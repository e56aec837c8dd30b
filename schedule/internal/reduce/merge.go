package reduce

import (
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// forward merges w into its predecessor u, to run right after it, if
//
//	a. every other predecessor of w is an ancestor of u
//	b. outs(w) - (inputs that w surely frees) <= 0
//	c. outs(u) - (sole inputs of u without claims of u) + trans(w)
//	   - (pairs of w that are surely given) <= trans(u) - (pairs of u that are
//	   always given)
//
//	u ... x ... w      any order
//	u w ... x ...      w moved: x runs from fewer live bytes
//
// outs are the bytes that a node makes and that are read or outputs. Sole inputs are no
// outputs and have no other reader. w surely frees an input that is no output and is
// otherwise read by u and its ancestors alone; pairs over such inputs are surely given.
// The claims of u are its credits and the tensors of its pairs. The merged node needs
// what u needs. Its credits and pairs are those of u over tensors that w does not read:
// the others are never given, since w runs after u.
//
// Proof. Take any order and move w to right after u, which a allows. The states in between
// gain w, which raises none of them by b; live does not grow, and what the nodes there save
// only grows with the state. Then w has a load of at most live(S) + outs(u) - (what u frees)
// + trans(w) - (surely given). From S, u saves at most the claims that it frees, which c
// leaves out of the sole inputs, and the pairs always given. So by c the load of w is at most
// that of u.
func (c *contraction) forward(u, w int32) bool {
	g := c.g
	if over := c.outs[u] - c.sole[u] + c.claimedAlone(u) + c.trans[w] - c.trans[u] + c.alwaysGiven(u); over > 0 {
		if over > c.mostGiven(w) || over > c.atLeast(c.pairs[w], func(t int32) bool {
			return t < 0 || c.dead[t] || c.allPrecede(c.readers[t], w, u)
		}) {
			return false
		}
	}
	left := c.outs[w]
	for _, t := range c.reads[w] {
		if left <= 0 {
			break
		}
		if !g.Output[t] && c.allPrecede(c.readers[t], w, u) {
			left -= g.Size[t]
		}
	}
	if left > 0 {
		return false
	}
	for _, p := range c.preds[w] {
		if p != u && !c.precedes(p, u) {
			return false
		}
	}
	c.release(w, func(int32) bool { return false })
	c.release(u, func(t int32) bool { return !slices.Contains(c.reads[w], t) })
	c.merge(u, w, u, c.trans[u])
	return true
}

// maxReaders is how many readers are looked at one by one.
const maxReaders = 8

// allPrecede reports whether all readers but w are u or ancestors of it.
func (c *contraction) allPrecede(readers []int32, w, u int32) bool {
	if len(readers) > maxReaders {
		return false
	}
	for _, r := range readers {
		if r != w && !c.precedes(r, u) {
			return false
		}
	}
	return true
}

// backward merges u into its only successor w, to run right before it, if
//
//	b. low = outs(u) - (all inputs that u might free) >= 0
//	d. trans(u) - (pairs and credits of u over inputs that it might free)
//	   <= low + trans(w) - credits(w) - (largest matching of w)
//
//	u ... x ... w      any order
//	... x ... u w      u moved: x runs from fewer live bytes
//
// u never frees an input that is an output, or that w or a node after w reads. It surely
// frees an input whose other readers are all ancestors of u or of w: they have run when u
// runs right before w. Any other input is undecided and becomes a credit of the merged
// node. The merged node needs outs(u) - (surely freed) + trans(w), and keeps the credits
// and pairs of w; a tensor that u makes for w alone is always given. The credits and pairs
// of u are dropped.
//
// Proof. Take any order and move u to right before w. The states in between lose u. For
// an input t of u, either u freed it, and live falls by size(t) less than it would; or
// another node there reads t, and may save size(t) less by a claim on t. Not both: that
// other reader has not run when u would free t. So by b no load grows. The load of u is
// live(S) + trans(u) - (savings given to u). If all inputs were free that might be, it
// would by d and the definition of low be at most live(S + u) + trans(w) less all that w
// can save: the load of w. An input that is not free adds its size to live(S + u) and takes
// at most its size from the savings given to u. The load of w is live(S) + outs(u) -
// (freed by u) + trans(w) - (saved by w), and u frees an undecided input exactly when all
// its other readers have run.
func (c *contraction) backward(u, w int32) bool {
	if !c.canWait(u, w) {
		return false
	}
	late := c.outs[u]
	var undecided []int32
	for _, t := range c.reads[u] {
		if c.g.Output[t] {
			continue
		}
		switch never, surely := c.freedBefore(u, w, t); {
		case never:
		case surely:
			late -= c.g.Size[t]
		case !c.useCredits:
			return false
		default:
			undecided = append(undecided, t)
		}
	}
	c.release(u, func(int32) bool { return false })
	c.credits[w] = append(c.credits[w], undecided...)
	c.merge(u, w, w, late+c.trans[w])
	return true
}

// canWait reports whether b and d hold: then some optimal order of those that run u before
// w runs it right before w, if precedence allows it.
func (c *contraction) canWait(u, w int32) bool {
	g := c.g
	mayFree := func(t int32) bool {
		if t < 0 || c.dead[t] {
			return true
		}
		return !c.neverFreed(u, w, t)
	}
	if !c.mayWait(u, w) {
		return false // the searches for ancestors change nothing
	}
	low := c.outs[u]
	for _, t := range c.reads[u] {
		if !g.Output[t] && mayFree(t) {
			if low -= g.Size[t]; low < 0 {
				return false
			}
		}
	}
	over := c.trans[u] - low - c.trans[w] + c.mostGiven(w)
	if over > 0 && over > c.mostGiven(u) {
		return false
	}
	for _, t := range c.credits[u] {
		if over > 0 && mayFree(t) {
			over -= g.Size[t]
		}
	}
	return over <= 0 || over <= c.atLeast(c.pairs[u], mayFree)
}

// mayWait reports whether d can hold: if it does not with low at its largest, outs(u), it
// does not with less.
func (c *contraction) mayWait(u, w int32) bool {
	return c.trans[u]-c.outs[u]-c.trans[w] <= c.mostGiven(u)-c.mostGiven(w)
}

// freedBefore says whether u never or surely frees t if it runs right before w.
func (c *contraction) freedBefore(u, w, t int32) (never, surely bool) {
	if c.neverFreed(u, w, t) {
		return true, false
	}
	return false, c.allPrecedeEither(c.readers[t], u, w)
}

// neverFreed says whether w or a node after it reads t, so that u, right before w, does not
// free it.
func (c *contraction) neverFreed(u, w, t int32) bool {
	readers := c.readers[t]
	if len(readers) == 1 {
		return false
	}
	if slices.Contains(readers, w) {
		return true
	}
	if len(readers) > maxReaders && c.sets.words == 0 {
		return c.near.reachesReader(w, t, c.succs, c.reads)
	}
	for _, r := range readers {
		if r != u && c.precedes(w, r) {
			return true
		}
	}
	return false
}

// allPrecedeEither reports whether all readers but u are ancestors of u or of w.
func (c *contraction) allPrecedeEither(readers []int32, u, w int32) bool {
	if len(readers) > maxReaders {
		return false
	}
	for _, r := range readers {
		if r != u && !c.precedes(r, u) && !c.precedes(r, w) {
			return false
		}
	}
	return true
}

func (c *contraction) sum(tensors []int32) (size int64) {
	for _, t := range tensors {
		size += c.g.Size[t]
	}
	return size
}

// alwaysGiven returns at least what v saves by pairs over tensors made within v.
func (c *contraction) alwaysGiven(v int32) int64 {
	return c.atMost(c.pairs[v], func(t int32) bool { return t < 0 || c.dead[t] })
}

// mostGiven returns at least what v can save.
func (c *contraction) mostGiven(v int32) int64 {
	return c.sum(c.credits[v]) + c.atMost(c.pairs[v], func(int32) bool { return true })
}

// atMost sums the results of the pairs over tensors that count. Pairs are listed by
// result.
func (c *contraction) atMost(pairs []indexed.InPlacePair, counts func(int32) bool) (size int64) {
	last := int32(-1)
	for _, pair := range pairs {
		if pair.Result != last && counts(pair.Over) {
			last = pair.Result
			size += pair.Size
		}
	}
	return size
}

// atLeast sums the results of some pairs that can be given together, over tensors
// that count.
func (c *contraction) atLeast(pairs []indexed.InPlacePair, counts func(int32) bool) (size int64) {
	var given []indexed.InPlacePair
	for _, p := range pairs {
		taken := func(q indexed.InPlacePair) bool { return q.Result == p.Result || q.Over == p.Over }
		if !slices.ContainsFunc(given, taken) && counts(p.Over) {
			given = append(given, p)
			size += p.Size
		}
	}
	return size
}

// release drops the savings of v over tensors that keep refuses.
func (c *contraction) release(v int32, keep func(t int32) bool) {
	c.credits[v] = slices.DeleteFunc(c.credits[v], func(t int32) bool { return !keep(t) })
	c.pairs[v] = slices.DeleteFunc(c.pairs[v], func(p indexed.InPlacePair) bool { return !keep(p.Over) })
}

// merge makes u then w one node under the number k, u or w.
func (c *contraction) merge(u, w, k int32, trans int64) {
	gone := u + w - k
	var own []int32
	for _, t := range c.reads[w] {
		if m := c.g.Maker[t]; m >= 0 && c.now(m) == u {
			own = append(own, t)
		}
	}
	if k == u {
		c.run[k] = append(c.run[u], c.run[w]...)
	} else {
		c.run[k] = append(slices.Clip(c.run[u]), c.run[w]...)
	}
	c.trans[k] = trans
	c.succs[u], c.preds[w] = without(c.succs[u], w), without(c.preds[w], u)
	for _, p := range c.preds[gone] {
		c.succs[p] = without(c.succs[p], gone)
		if k == w { // else it is an ancestor of u already
			c.succs[p] = with(c.succs[p], k)
			c.preds[k] = with(c.preds[k], p)
		}
	}
	for _, s := range c.succs[gone] {
		c.preds[s] = with(without(c.preds[s], gone), k)
		c.succs[k] = with(c.succs[k], s)
	}
	for _, t := range c.reads[gone] {
		c.soleReader(t, -1)
		c.readers[t] = with(without(c.readers[t], gone), k)
		c.reads[k] = with(c.reads[k], t)
		c.soleReader(t, 1)
	}
	c.outs[k] += c.outs[gone]
	c.run[gone], c.preds[gone], c.succs[gone], c.reads[gone] = nil, nil, nil, nil
	c.gone[gone], c.into[gone] = true, k
	c.left--
	c.settleCredits(k)
	c.bury(k, own)
}

// settleCredits subtracts the credits that are always given, because no other reader is
// left, from trans.
func (c *contraction) settleCredits(k int32) {
	c.credits[k] = slices.DeleteFunc(c.credits[k], func(t int32) bool {
		if len(c.readers[t]) > 1 {
			return false
		}
		c.trans[k] -= c.g.Size[t]
		return true
	})
}

// bury drops the tensors that k makes and reads itself if no other node needs them. A
// tensor that others need too gives no saving: u has no successor but w, so they come
// after w.
func (c *contraction) bury(k int32, own []int32) {
	for _, t := range own {
		c.soleReader(t, -1)
		c.readers[t] = without(c.readers[t], k)
		c.reads[k] = without(c.reads[k], t)
		c.soleReader(t, 1)
		if c.dead[t] = len(c.readers[t]) == 0 && !c.g.Output[t]; c.dead[t] {
			c.outs[k] -= c.g.Size[t]
		} else {
			c.release(k, func(x int32) bool { return x != t })
		}
	}
}

// soleReader counts a tensor for its reader, if it has one alone, or takes it back.
func (c *contraction) soleReader(t int32, times int64) {
	if len(c.readers[t]) == 1 && !c.g.Output[t] {
		c.sole[c.readers[t][0]] += times * c.g.Size[t]
	}
}

// claimedAlone returns the bytes that v alone reads and claims.
func (c *contraction) claimedAlone(v int32) (size int64) {
	alone := func(t int32) int64 {
		if t >= 0 && len(c.readers[t]) == 1 && !c.g.Output[t] {
			return c.g.Size[t]
		}
		return 0
	}
	for _, t := range c.credits[v] {
		size += alone(t)
	}
	for i, pair := range c.pairs[v] {
		if !slices.ContainsFunc(c.pairs[v][:i], func(p indexed.InPlacePair) bool { return p.Over == pair.Over }) {
			size += alone(pair.Over)
		}
	}
	return size
}

// now returns the node that stands for another.
func (c *contraction) now(v int32) int32 {
	for c.into[v] != v {
		c.into[v] = c.into[c.into[v]]
		v = c.into[v]
	}
	return v
}

// without and with treat a list as a set.
func without(list []int32, x int32) []int32 {
	if i := slices.Index(list, x); i >= 0 {
		list[i] = list[len(list)-1]
		list = list[:len(list)-1]
	}
	return list
}

func with(list []int32, x int32) []int32 {
	if !slices.Contains(list, x) {
		list = append(list, x)
	}
	return list
}
