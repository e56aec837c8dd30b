package autodiff

import (
	"cmp"
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// waiting is a gradient that waits until all gradients are known to be finite.
type waiting struct {
	index    int         // of its parameter
	from     ID          // what the loss scale divides, in float32
	checks   []ID        // what waits
	held     int64       // bytes of what waits
	wide     int64       // bytes of the gradient in float32
	by       *repetition // how it can be made again; nil: it cannot
	cost     int64       // floating-point operations of that
	repeated bool        // it is made again, and does not wait
}

// sources are the tensors that are kept until the update: what is checked, or what it is made of again.
func (w *waiting) sources() []ID {
	if w.repeated {
		return slices.Sorted(maps.Keys(w.by.leaves))
	}
	return w.checks
}

// itself is the bytes of the gradient among its sources.
func (w *waiting) itself() int64 {
	if w.from == graph.None && !w.repeated {
		return w.wide
	}
	return 0
}

// loads estimates the memory of a step in which gradients wait, from above, and that of the step in
// float32, in which each is updated at once, from below.
type loads struct {
	*trainer
	maker map[ID]*graph.Node
	goal  int64       // bytes in float32
	lives map[ID]life // of what is kept, in the types that it has
	end   int         // a time after all of these
	list  []*waiting  // those of small parameters first
}

// life is the first and the last node at which a tensor is there, in the order of the graph.
type life struct{ first, last int }

// loadsOf estimates the memory of the step in float32: what lives while the loss is computed, or the
// largest gradient.
func (s *trainer) loadsOf(list []*waiting) *loads {
	l := &loads{trainer: s, maker: map[ID]*graph.Node{}, end: len(s.g.Nodes), list: slices.Clone(list)}
	for _, n := range s.g.Nodes {
		for _, t := range n.Outputs {
			l.maker[t] = n
		}
	}
	slices.SortStableFunc(l.list, func(a, b *waiting) int { return cmp.Compare(a.wide, b.wide) })
	wide, narrow := []ID{s.loss}, []ID{s.loss}
	for _, w := range list {
		l.goal = max(l.goal, w.wide)
		narrow = append(narrow, w.checks...)
		if w.from != graph.None {
			wide = append(wide, w.from)
		} else {
			wide = append(wide, s.reduced[w.index])
		}
	}
	lives, saved := l.livesOf(wide, true), int64(0)
	for t, v := range lives {
		if at := lives[l.storage(s.loss, true)].first; v.first <= at && v.last > at {
			saved += elements(l.shape(t)) * max(4, int64(l.typeOf(t).Elem.Bits())/8)
		}
	}
	l.goal = max(l.goal, saved)
	l.lives = l.livesOf(narrow, false)
	return l
}

// livesOf returns the lives of what nodes make that lead to some tensors.
func (l *loads) livesOf(ends []ID, wide bool) map[ID]life {
	needed := map[*graph.Node]bool{}
	for todo := ends; len(todo) > 0; {
		n := l.maker[todo[len(todo)-1]]
		if todo = todo[:len(todo)-1]; n == nil || needed[n] {
			continue
		}
		needed[n] = true
		n.Reads(func(t ID) { todo = append(todo, t) })
	}
	lives := map[ID]life{}
	for i, n := range l.g.Nodes {
		if !needed[n] {
			continue
		}
		n.Reads(func(t ID) {
			t = l.storage(t, wide)
			if v, made := lives[t]; made {
				lives[t] = life{v.first, i}
			}
		})
		for _, t := range n.Outputs {
			if t != graph.None && l.storage(t, wide) == t {
				lives[t] = life{i, i}
			}
		}
	}
	for i, n := range l.g.Nodes {
		if op := ops.Lookup(n.Domain, n.Op); needed[n] && op != nil && op.Inplace != nil {
			l.overwrite(lives, n, i, wide)
		}
	}
	return lives
}

// overwrite ends the life of an input that the result of node i overwrites.
func (l *loads) overwrite(lives map[ID]life, n *graph.Node, i int, wide bool) {
	for _, t := range n.Inputs {
		if t == graph.None {
			continue
		}
		t = l.storage(t, wide)
		if v, made := lives[t]; made && v.last == i && l.bytes(t) == l.bytes(n.Outputs[0]) {
			lives[t] = life{v.first, i - 1}
			return
		}
	}
}

// storage is the tensor whose memory holds another: what is only given another shape, and, in a step in
// float32, what is only converted.
func (l *loads) storage(t ID, wide bool) ID {
	for n := l.maker[t]; n != nil && (views(n) || wide && l.converts(n)); n = l.maker[t] {
		t = n.Inputs[0]
	}
	return t
}

// views reports whether a result is its first input, perhaps with another shape.
func views(n *graph.Node) bool {
	op := ops.Lookup(n.Domain, n.Op)
	return op != nil && op.Class == ops.View || ops.Copies(n)
}

// converts reports whether a node is a Cast between floating-point types.
func (l *loads) converts(n *graph.Node) bool {
	return ops.Casts(n) && l.typeOf(n.Inputs[0]).Elem.Floating() && l.typeOf(n.Outputs[0]).Elem.Floating()
}

// need is the memory that the step needs if what gradients that are made again are made of stays in their
// place, and no less than the goal.
func (l *loads) need() int64 {
	lives, waits := maps.Clone(l.lives), map[ID]int{} // for how many updates a tensor waits
	total := int64(0)
	for _, w := range l.list {
		for _, t := range w.sources() {
			if v, made := lives[l.storage(t, false)]; made {
				lives[l.storage(t, false)] = life{v.first, l.end}
			}
			if waits[t]++; waits[t] == 1 {
				total += l.bytes(t)
			}
		}
	}
	need := max(l.goal, l.peak(lives))
	for _, w := range l.list { // the largest parameter is updated last, when there is most room
		before := total
		for _, t := range w.sources() {
			if waits[t]--; waits[t] == 0 {
				total -= l.bytes(t)
			}
		}
		if 2*(before-total) >= w.wide { // in float32 there is none of this beside the gradient
			need = max(need, before+w.wide-w.itself())
		}
		need = max(need, total+w.wide)
	}
	return need
}

// peak is the largest sum of what lives at one time, but for casts of parameters, which can run again.
func (l *loads) peak(lives map[ID]life) (peak int64) {
	change := make([]int64, l.end+2)
	for t, v := range lives {
		if n := l.maker[t]; ops.Casts(n) && l.g.Tensors[n.Inputs[0]].Data != nil {
			continue
		}
		change[v.first] += l.bytes(t)
		change[v.last+1] -= l.bytes(t)
	}
	load := int64(0)
	for _, c := range change {
		load += c
		peak = max(peak, load)
	}
	return peak
}
