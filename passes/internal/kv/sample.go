package kv

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// sample is the given graph, inferred for one length of the past.
type sample struct {
	past   int64
	g      *graph.Graph
	values []*ops.Value
}

// line is a length or number that is slope · past + base at all samples.
type line struct {
	slope, base int64
	known       bool
}

// at is its value for a length of the past.
func (l line) at(past int64) int64 { return l.slope*past + l.base }

// leastRoom is the least number of tokens that a cache must have room for beside those of
// one run: shorter ones do not show how lengths depend on it.
const leastRoom = 4

// sample infers the graph with pasts of several lengths: short ones, the longest, and one
// between them. What is a line at these is one: a length that is cut off, such as that of a
// sliding window, differs from its line at an end or at the middle.
func (r *rewriter) sample() error {
	first := r.caches[0]
	s, err := r.infer(1)
	if err != nil {
		return err
	}
	have, ok := dimOf(s.g.Tensors[first.present], first.axis).Max()
	if !ok || have < 2 {
		e := graph.Errorf("has no known length along axis %d", first.axis)
		e.Tensor = r.nameOf(first.present)
		return e
	}
	if r.fresh = have - 1; r.tie() {
		if s, err = r.infer(1); err != nil {
			return err
		}
	}
	longest := r.opt.Capacity - r.fresh
	if longest < leastRoom {
		return graph.Errorf("a capacity of %d tokens: expected at least %d, for runs of %d", r.opt.Capacity, r.fresh+leastRoom, r.fresh)
	}
	r.at = []sample{*s}
	lengths := []int64{2, 3, longest/2 + 1, longest}
	slices.Sort(lengths)
	for _, n := range slices.Compact(lengths) {
		s, err := r.infer(n)
		if err != nil {
			return asError(err)
		}
		r.at = append(r.at, *s)
	}
	r.facts = make([]fact, len(r.g.Tensors))
	for _, c := range r.caches {
		if l := r.length(c.present, c.axis); !l.known || l.slope != 1 || l.base != r.fresh {
			e := graph.Errorf("does not grow by the %d tokens of %q: expected all caches to hold the same tokens", r.fresh, graph.Short(r.nameOf(first.present)))
			e.Tensor = r.nameOf(c.present)
			return e
		}
	}
	return nil
}

// tie finds open dimensions that must be as long as all tokens so far, such as that of a mask
// whose name says nothing of the past. With that length of such a dimension the model can be
// inferred, with another it cannot.
func (r *rewriter) tie() (some bool) {
	const past, other = 5, 3
	open, err := ops.Dims(&graph.Model{Opsets: r.m.Opsets, Graph: r.g.Clone(), Functions: r.m.Functions}, r.options(past))
	if err != nil {
		return false
	}
	for _, d := range open {
		if !d.Assumed {
			continue
		}
		with := func(n int64) bool {
			opt := r.options(past)
			opt.Dims[d.Name] = n
			_, err := r.inferWith(past, opt)
			return err == nil
		}
		if !with(other) && with(past+r.fresh) {
			r.tied, some = append(r.tied, d.Name), true
		}
	}
	return some
}

// options are those of inference for a length of the past.
func (r *rewriter) options(past int64) ops.Options {
	opt := r.opt.Infer
	opt.Dims = r.dims(past)
	return opt
}

func (r *rewriter) infer(past int64) (*sample, error) { return r.inferWith(past, r.options(past)) }

func (r *rewriter) inferWith(past int64, opt ops.Options) (*sample, error) {
	m := *r.m
	m.Graph = r.g.Clone()
	inf, err := ops.Infer(&m, opt)
	if err != nil {
		return nil, err
	}
	return &sample{past, m.Graph, inf.Values}, nil
}

// full is the sample whose past and new tokens fill the caches.
func (r *rewriter) full() *sample { return &r.at[len(r.at)-1] }

// shape is that of a tensor of the given graph when the caches are full.
func (r *rewriter) shape(t graph.TensorID) []graph.Dim { return r.full().g.Tensors[t].Type.Shape }

func (r *rewriter) rank(t graph.TensorID) int { return len(r.shape(t)) }

// fit is the line through what f gives for each sample.
func (r *rewriter) fit(f func(s *sample) (int64, bool)) line {
	a, b := &r.at[0], r.full()
	y, ok := f(a)
	z, too := f(b)
	if !ok || !too || (z-y)%(b.past-a.past) != 0 {
		return line{}
	}
	l := line{slope: (z - y) / (b.past - a.past), known: true}
	l.base = y - l.slope*a.past
	for i := range r.at {
		if n, ok := f(&r.at[i]); !ok || n != l.at(r.at[i].past) {
			return line{}
		}
	}
	return l
}

// dimOf is the length of a tensor along an axis.
func dimOf(t *graph.Tensor, axis int) graph.Dim {
	if axis >= len(t.Type.Shape) {
		return graph.Unknown
	}
	return t.Type.Shape[axis]
}

// length is the length of a tensor along an axis.
func (r *rewriter) length(t graph.TensorID, axis int) line {
	return r.fit(func(s *sample) (int64, bool) {
		d := dimOf(s.g.Tensors[t], axis)
		return int64(d), d.Exact()
	})
}

// keysAxis returns the axis of a tensor with one element for each token so far, past and
// new; -1 if none of its lengths depends on the past.
func (r *rewriter) keysAxis(t graph.TensorID) (int, error) {
	found := -1
	for axis := range r.rank(t) {
		exact := slices.ContainsFunc(r.at, func(s sample) bool { return dimOf(s.g.Tensors[t], axis).Exact() })
		switch l := r.length(t, axis); {
		case !exact, l.known && l.slope == 0:
		case !l.known || l.slope != 1 || l.base != r.fresh || found >= 0:
			e := graph.Errorf("axis %d has length %v when the caches are full, and another one before: expected one axis alone to grow, to the number of tokens so far", axis, r.shape(t)[axis])
			e.Tensor = r.nameOf(t)
			return -1, e
		default:
			found = axis
		}
	}
	return found, nil
}

// numbers returns the elements of an integer tensor as lines; nil if they are not known.
func (r *rewriter) numbers(t graph.TensorID) []line {
	if t < 0 || int(t) >= len(r.full().values) {
		return nil
	}
	typ := r.full().g.Tensors[t].Type
	if !typ.Elem.Integer() {
		return nil
	}
	var lists [][]int64
	for i := range r.at {
		v := r.at[i].values[t]
		list, ok := v.Ints()
		if !ok || i > 0 && (len(list) != len(lists[0]) || !slices.Equal(v.Shape, r.at[0].values[t].Shape)) {
			return nil
		}
		lists = append(lists, list)
	}
	lines := make([]line, len(lists[0]))
	for k := range lines {
		lines[k] = r.fit(func(s *sample) (int64, bool) {
			for i := range r.at {
				if &r.at[i] == s {
					return lists[i][k], true
				}
			}
			return 0, false
		})
		if !lines[k].known {
			return nil
		}
	}
	return lines
}

// constant returns the number that all elements of a tensor are, whatever the past.
func (r *rewriter) constant(t graph.TensorID) (float64, bool) {
	if t < 0 || int(t) >= len(r.full().values) {
		return 0, false
	}
	v := r.full().values[t]
	for i := range r.at {
		w := r.at[i].values[t]
		if v == nil || w == nil || v.Items != nil || len(w.Elems) == 0 {
			return 0, false
		}
		for _, e := range w.Elems {
			if e.State != ops.Known || e.F != v.Elems[0].F || e.I != v.Elems[0].I {
				return 0, false
			}
		}
	}
	if r.full().g.Tensors[t].Type.Elem.Floating() {
		return v.Elems[0].F, true
	}
	return float64(v.Elems[0].I), true
}
