package slicing

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// signature identifies what one slice of a region needs and costs: regions of repeated
// blocks have the same.
type signature [sha256.Size]byte

// measure is what one number of slices needs and costs, for all regions with a
// signature.
type measure struct {
	possible bool
	inner    int64   // bytes
	taken    []int64 // bytes of the rows that all slices take of each input; -1: a slice reads all of it
	extra    float64 // nanoseconds
}

// impossible is the measure of a number of slices into which a region cannot be cut.
var impossible = &measure{}

type measureKey struct {
	of signature
	k  int
}

// signature computes the signature of a region from its operators, shapes, dimension
// maps and edges.
func (r *Region) signature() signature {
	p, numbers := r.p, r.pieces()
	text := p.room.text[:0]
	number := func(v int64) { text = binary.AppendVarint(text, v) }
	seen := zeroed(p.room.seen, len(r.Inputs)+numbers.made)
	tensor := func(t graph.TensorID, k int32) {
		number(int64(k))
		if k == noPiece || seen[len(r.Inputs)+int(k)] {
			return
		}
		seen[len(r.Inputs)+int(k)] = true
		x := p.g.Tensors[t]
		number(int64(x.Type.Elem))
		number(int64(len(x.Type.Shape)))
		for _, d := range x.Type.Shape {
			number(int64(d))
		}
		flags := int64(0)
		if p.resident(t) {
			flags |= 1
		}
		if k < 0 && numbers.inFile[-1-k] {
			flags |= 2
		}
		number(flags)
	}
	rows := func(list []ops.Rows) {
		for _, w := range list {
			number(int64(w.Axis))
			if w.Axis != ops.Whole {
				number(w.Scale)
				number(w.Divide)
				number(w.Before)
				number(w.After)
			}
		}
	}
	for x, v := range r.Nodes {
		n := p.g.Nodes[v]
		text = append(text, n.Op...)
		number(n.Semantics.FLOPs)
		for j, t := range n.Inputs {
			tensor(t, numbers.in(x)[j])
		}
		rows(r.rowsOf(v))
		for k, t := range n.Outputs {
			tensor(t, numbers.out(x)[k])
			if sum := r.sum[v]; sum != nil {
				number(-2)
				number(sum.Length)
			} else {
				number(int64(r.cut(v).Out[k]))
			}
		}
		for _, list := range [][]graph.Alias{n.Semantics.Views, n.Semantics.Inplace} {
			number(int64(len(list)))
			for _, a := range list {
				number(int64(a.Out))
				number(int64(a.In))
			}
		}
	}
	number(-3)
	for _, t := range r.Outputs {
		tensor(t, r.number(t))
	}
	p.room.text, p.room.seen = text, seen
	return sha256.Sum256(text)
}

// measured returns what k slices of a region with that signature need and cost.
func (r *Region) measured(of signature, k int) *measure {
	if int64(k) > r.fewest {
		return impossible
	}
	key := measureKey{of, k}
	if m := r.p.measures[key]; m != nil {
		return m
	}
	m := &measure{}
	if probes := r.probes(k); probes != nil {
		m.possible = true
		m.taken = make([]int64, len(r.Inputs))
		for _, s := range probes {
			inner, taken := r.inner(s.Slice)
			m.inner = max(m.inner, inner)
			for j, bytes := range taken {
				if bytes < 0 || m.taken[j] < 0 {
					m.taken[j] = -1
				} else {
					m.taken[j] += bytes * int64(s.weight)
				}
			}
			m.extra += s.weight * r.time(s.Slice, s.i == 0)
			r.p.free(s.Slice)
		}
		m.extra += r.timeOfShares() - r.wholeTime()
	}
	r.p.measures[key] = m
	return m
}
