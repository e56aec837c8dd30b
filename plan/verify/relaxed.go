package verify

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
)

// relaxed returns the scope whose loads no plan with aliases can go below, for any order and
// any choice of nodes that share bytes. Every byte that a node only moves is the byte that it
// was, as if memory could have two places at once. With the bytes of storages as in
//
//	cat = Concat(x, y)      cat[0:4] is x[0:4], cat[4:6] is y[0:2]
//	z = Relu(cat)           may be made over cat: z[0:4] over x[0:4], z[4:6] over y[0:2]
//
// a part is a range of bytes that the bytes of other storages cover as a whole or not at
// all. It lives from its maker to the last reader of any storage that covers it.
//
// Proof. Different parts hold different values, so whatever the plan, at each step those
// that are live lie in different bytes. The exception is a node that writes a result over
// an input: it saves at most the bytes of the input's parts that nobody reads later.
//
// It returns nil if there are too many parts: nodes that join a tensor with itself, one
// after the other, have exponentially many. To leave a pair out would be wrong: the bound
// would be too large.
func (s *scope) relaxed() *scope {
	r := &relaxation{s: s.withoutAliases(), cuts: map[int32][]int64{}}
	if !r.contents() {
		return nil
	}
	if !r.cutAll() {
		return nil
	}
	return r.scope()
}

// run is the bytes [from, to) of a storage that a node writes.
type run struct {
	root     int32
	from, to int64
}

// relaxation makes a relaxed scope.
type relaxation struct {
	s       *scope
	content [][]run           // by storage
	cuts    map[int32][]int64 // by root, ascending
	pairs   []placedPair
}

// placedPair is an in-place pair and its node.
type placedPair struct {
	core.Pair
	node int32
}

// maxRuns limits the runs of all contents.
const maxRuns = 1 << 22

const tooManyParts = "aliases: expected a graph whose nodes move bytes in at most 4194304 parts: no bound can be checked"

// contents follows the bytes of all storages to the nodes that write them. It reports
// false if there are too many runs.
func (r *relaxation) contents() bool {
	s := r.s
	runs := 0
	r.content = make([][]run, len(s.Storages))
	for i := range s.Storages {
		r.content[i] = []run{{int32(i), 0, s.Storages[i].Bytes}}
	}
	for id, n := range s.g.Nodes {
		for out, t := range n.Outputs {
			if t >= 0 && s.storageOf[t] != none && s.origins[s.storageOf[t]].tensors[0] == t {
				r.move(n, out, s.storageOf[t])
				if runs += len(r.content[s.storageOf[t]]); runs > maxRuns {
					return false
				}
			}
		}
		for _, p := range s.Pairs(int32(id)) {
			r.pairs = append(r.pairs, placedPair{p, int32(id)})
		}
	}
	return true
}

// move sets the content of an output whose bytes a node moves.
func (r *relaxation) move(n *graph.Node, out int, y int32) {
	s := r.s
	var content []run
	moved := false
	for _, x := range n.Semantics.Ranges {
		if x.Out != out || len(content) > maxRuns {
			continue
		}
		i := s.storageOf[n.Inputs[x.In]]
		if i == none {
			return
		}
		if s.movable(y, i, x) {
			content = append(content, r.part(i, x.From, x.From+s.v.round(x.Bytes))...)
			moved = true
		} else if from, to := s.v.round(x.At), s.v.round(x.At+x.Bytes); from < to {
			if k := len(content) - 1; k >= 0 && content[k].root == y && content[k].to == from {
				content[k].to = to // the node writes both
				continue
			}
			content = append(content, run{y, from, to})
		}
	}
	if moved {
		r.content[y] = content
	}
}

// movable reports whether the bytes of a range may be shared: it begins at multiples of
// the alignment in both storages, and ends at one or where both end.
func (s *scope) movable(out, in int32, x graph.SubRange) bool {
	a := s.v.Plan.Alignment
	ends := x.Bytes%a == 0 || x.At+x.Bytes == s.exactBytes(out) && x.From+x.Bytes == s.exactBytes(in)
	return s.exact(out) && s.exact(in) && x.Bytes > 0 && x.At%a == 0 && x.From%a == 0 && ends
}

// exactBytes is the size of a storage before it is rounded up.
func (s *scope) exactBytes(i int32) int64 { return s.g.Tensors[s.origins[i].tensors[0]].Bytes }

// part is the content of the bytes [from, to) of a storage.
func (r *relaxation) part(i int32, from, to int64) (list []run) {
	at := int64(0)
	for _, x := range r.content[i] {
		if a, b := max(from-at, 0), min(to-at, x.to-x.from); a < b {
			list = append(list, run{x.root, x.from + a, x.from + b})
		}
		at += x.to - x.from
	}
	return list
}

// cut cuts a root and reports whether that is new.
func (r *relaxation) cut(root int32, at int64) bool {
	k, found := slices.BinarySearch(r.cuts[root], at)
	if !found {
		r.cuts[root] = slices.Insert(r.cuts[root], k, at)
	}
	return !found
}

// maxCuts limits the cuts that pairs hand on.
const maxCuts = 1 << 18

// cutAll cuts all roots where a content begins or ends, and both storages of a pair alike,
// until nothing changes: a pair is of parts, each with its part of the other storage. It
// reports false if there are too many cuts.
func (r *relaxation) cutAll() bool {
	for _, content := range r.content {
		for _, x := range content {
			r.cut(x.root, x.from)
			r.cut(x.root, x.to)
		}
	}
	partners := map[int32][]int32{}
	for _, p := range r.pairs {
		partners[p.Over] = append(partners[p.Over], p.Result)
		partners[p.Result] = append(partners[p.Result], p.Over)
	}
	under := map[int32][]int32{} // by root: the storages of pairs that have bytes of it
	var queue []int32            // storages whose cuts their partners may lack
	waits := map[int32]bool{}
	add := func(i int32) {
		if !waits[i] {
			waits[i] = true
			queue = append(queue, i)
		}
	}
	for i := range r.content {
		if partners[int32(i)] == nil {
			continue
		}
		for _, x := range r.content[i] {
			if u := under[x.root]; len(u) == 0 || u[len(u)-1] != int32(i) {
				under[x.root] = append(u, int32(i))
			}
		}
		add(int32(i))
	}
	cuts := 0
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		delete(waits, i)
		for _, at := range r.cutsOf(i) {
			for _, j := range partners[i] {
				root, is := r.cutStorage(j, at)
				if !is {
					continue
				}
				if cuts++; cuts > maxCuts {
					return false
				}
				for _, k := range under[root] {
					add(k)
				}
			}
		}
	}
	return true
}

// cutsOf lists the places at which a storage is cut.
func (r *relaxation) cutsOf(i int32) (list []int64) {
	at := int64(0)
	for _, x := range r.content[i] {
		for _, c := range r.cuts[x.root] {
			if x.from < c && c <= x.to {
				list = append(list, at+c-x.from)
			}
		}
		at += x.to - x.from
	}
	return list
}

// cutStorage cuts a storage at one of its bytes. It returns the root that is cut there, and
// whether that is new.
func (r *relaxation) cutStorage(i int32, at int64) (root int32, is bool) {
	for _, x := range r.content[i] {
		if size := x.to - x.from; at < size {
			return x.root, at > 0 && r.cut(x.root, x.from+at)
		}
		at -= x.to - x.from
	}
	return none, false
}

// scope makes the relaxed scope.
func (r *relaxation) scope() *scope {
	plain := r.s
	s := *plain
	s.Storages, s.origins = slices.Clone(plain.Storages), slices.Clip(plain.origins)
	ids := map[run]int32{}
	parts := make([][]int32, len(plain.Storages))
	for i := range parts {
		for _, x := range r.content[i] {
			from := x.from
			for _, c := range r.cuts[x.root] {
				if c <= from || c > x.to {
					continue
				}
				key := run{x.root, from, c}
				id, known := ids[key]
				if !known {
					root := &plain.Storages[x.root]
					id = int32(len(s.Storages))
					if key == (run{int32(i), 0, plain.Storages[i].Bytes}) {
						id = int32(i)
					} else {
						s.Storages = append(s.Storages, core.Storage{
							Bytes: c - from, Maker: root.Maker, Resident: root.Resident, Outside: root.Outside,
							Host: root.Host, First: root.First, Last: root.Last,
						})
						s.origins = append(s.origins, plain.origins[x.root].part())
					}
					ids[key] = id
				}
				parts[i] = append(parts[i], id)
				from = c
			}
		}
	}
	for i := range parts {
		if len(parts[i]) == 0 || len(parts[i]) == 1 && parts[i][0] == int32(i) {
			continue
		}
		s.Storages[i].Parts, s.Storages[i].Bytes = parts[i], 0
		for _, id := range parts[i] {
			st := &s.Storages[id]
			st.Readers = append(slices.Clone(st.Readers), plain.Storages[i].Readers...)
			st.Output = st.Output || plain.Storages[i].Output
		}
	}
	for id := range s.Storages {
		slices.Sort(s.Storages[id].Readers)
		s.Storages[id].Readers = slices.Compact(s.Storages[id].Readers)
	}
	s.link()
	cut := make([][]core.Pair, len(s.Nodes)) // by node
	for _, p := range r.pairs {
		results, overs := parts[p.Result], parts[p.Over] // cut alike
		for k := range results {
			if q := (core.Pair{Result: results[k], Over: overs[k]}); !slices.Contains(cut[p.node], q) {
				cut[p.node] = append(cut[p.node], q)
			}
		}
	}
	for i := range s.Nodes {
		s.Nodes[i].Over = append(cut[i], s.Nodes[i].Over...) // Pairs leaves out what stands there twice
	}
	return &s
}
