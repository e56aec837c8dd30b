package exact

import (
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/bounds"
)

// A ready node is postponable if it frees nothing and needs no more while it runs than it
// leaves behind. To run it early gains nothing. So the search runs a postponable node
// only if it leads somewhere soon: to a successor, or to a tensor freed, before any node
// runs that is not postponable.
//
// Lemma. Let some path within the limit lead from a state X to one with no more live bytes.
// Then some such path begins with a node that is not postponable or with one that leads
// somewhere, unless the nodes left are all postponable.
//
//	p p' n p w ...      w: the first node that is not postponable
//	p p' p w n ...      n, which leads nowhere before w, moves behind w
//
// Proof. Let Y be the smallest downset of least live bytes among the downsets on the path
// that contain X and more. Y can be reached: its nodes in the sequence of the path. Split
// the path to Y into the postponable nodes P at its start, the first node w that is not
// postponable, and the rest. If there is no w, the last node of P could be left out of Y,
// which would then have fewer live bytes; so Y is the end, and all nodes left are
// postponable, in any sequence.
//
// Otherwise let N be the nodes of P that are neither ancestors of w, nor readers of a
// tensor that w frees, nor ancestors of such readers. Successors in P of a node of N are
// in N. Move N, in its sequence, to right after w. The nodes of P that stay, and w, run
// from fewer live bytes and need what they did: w frees nothing that N reads. Each node
// of N had a load of at most that of w. Now it runs after w, which leaves at most what w
// needed, so its load is at most that of w before. So there is a path whose first node is
// w, or a node of P outside N: that one has a successor in P or is read by w, or it reads
// what w frees. In the first case all other ancestors of the successor that are left are
// in P too; in the second all readers of the tensor but w are postponable, and what they
// leave together fits.
//
// A node that is not postponable does not become postponable as others run: what it needs
// above what it leaves only grows.

// postponable reports whether a ready node is postponable.
func (d *Search) postponable(v int32) bool {
	return d.at.delta[v] == d.at.rise[v] && d.at.delta[v] > 0 && d.at.g.Need(v, d.at.unread, 1) <= d.at.delta[v]
}

// leads reports whether a postponable node leads to a successor or a freed tensor before
// any other node runs. If only the limit forbids that, the load counts as refused.
func (d *Search) leads(v int32) bool {
	for _, u := range d.at.g.Succs.Of(v) {
		if d.opens(v, u) {
			return true
		}
	}
	for _, t := range d.at.g.Reads.Of(v) {
		if !d.at.g.Output[t] && d.frees(t) {
			return true
		}
	}
	return false
}

// maxOpened is how many ancestors are looked at before they count as postponable.
const maxOpened = 16

// opens reports whether all nodes that must run before u, v among them, may be
// postponable.
func (d *Search) opens(v, u int32) bool {
	if d.at.waits[u] == 1 {
		return true
	}
	met := append(d.met[:0], v)
	defer func() { d.met = met[:0] }()
	load := d.at.live + d.at.rise[v]
	todo := u
	for i := 0; ; i++ {
		for _, x := range d.at.g.Preds.Of(todo) {
			if d.at.cut.Marks[x] == bounds.Inside || slices.Contains(met, x) {
				continue
			}
			if len(met) == maxOpened {
				return true
			}
			if !d.mayPostpone(x) {
				return false
			}
			if load += d.at.rise[x]; load > d.limit {
				d.refused = min(d.refused, load)
				return false
			}
			met = append(met, x)
		}
		for i < len(met) && d.at.waits[met[i]] == 0 {
			i++
		}
		if i == len(met) {
			return true
		}
		todo = met[i]
	}
}

// mayPostpone reports whether a node may be postponable when it runs. The last reader
// left of some tensor is not.
func (d *Search) mayPostpone(x int32) bool {
	if d.at.waits[x] == 0 {
		return d.postponable(x)
	}
	return d.at.delta[x] == d.at.rise[x] && d.at.delta[x] > 0 && d.at.g.Transient[x]-d.at.g.MostSaved(x) <= d.at.rise[x]
}

// frees reports whether all readers of t that are left, but the last, may be
// postponable. The answer is kept while the state is the same.
func (d *Search) frees(t int32) bool {
	if x := &d.freed[t]; x.branch != d.branches {
		*x = answer{d.branches, d.mayFree(t)}
	}
	return d.freed[t].yes
}

// answer is kept for the branch that asked.
type answer struct {
	branch int
	yes    bool
}

func (d *Search) mayFree(t int32) bool {
	load, most := d.at.live, int64(0)
	for _, r := range d.at.g.Readers.Of(t) {
		if d.at.cut.Marks[r] == bounds.Inside {
			continue
		}
		load += d.at.rise[r]
		most = max(most, d.at.rise[r])
		if load-most > d.limit {
			d.refused = min(d.refused, load-most)
			return false
		}
	}
	return true
}
