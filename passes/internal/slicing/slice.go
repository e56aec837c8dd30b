package slicing

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// Range is a range of rows of a tensor along an axis; all of it if the axis is
// ops.Whole.
type Range struct {
	Axis   int
	Lo, Hi int64
}

// Slice says what one slice of a region makes and reads.
type Slice struct {
	Share map[graph.TensorID]Range // rows of the outputs that it puts in their places
	Node  []NodeSlice              // of the region's nodes, in their order

	region  *Region
	numbers *pieces
	made    []Range // rows of the tensors that the region makes, by number; ops.Whole: it does not make the tensor row by row
	reads   []Range // the room of NodeSlice.In
}

// newSlice returns a slice for that many nodes, tensors that they make, and inputs. Estimates need many, each for a moment
// ([Program.free]).
func (p *Program) newSlice(nodes, made, reads int) *Slice {
	s := &Slice{Share: map[graph.TensorID]Range{}}
	if last := len(p.spare) - 1; last >= 0 {
		s, p.spare = p.spare[last], p.spare[:last]
		clear(s.Share)
	}
	s.Node, s.made, s.reads = zeroed(s.Node, nodes), zeroed(s.made, made), zeroed(s.reads, reads)
	return s
}

// free takes back a slice that nobody uses any more.
func (p *Program) free(s *Slice) { p.spare = append(p.spare, s) }

// zeroed returns a list of n zeros in the room of another one, if that is large enough.
func zeroed[T any](room []T, n int) []T {
	room = slices.Grow(room[:0], n)[:n]
	clear(room)
	return room
}

// Made returns the rows that the slice makes of a tensor; false if the region does not make
// it row by row.
func (s *Slice) Made(t graph.TensorID) (Range, bool) {
	if !s.region.Makes(t) {
		return Range{}, false
	}
	k := s.region.number(t)
	return s.made[k], s.made[k].Axis != ops.Whole
}

// NodeSlice is a node's copy in a slice.
type NodeSlice struct {
	Lo, Hi int64   // rows that it makes; of a sum: rows that it sums over
	In     []Range // of each input
}

// Slice returns slice i of k; nil if the region cannot be cut into that many. Each
// output gets its share of the rows. A tensor inside is made from the first to the last
// row that any of its readers wants, or from more rows if its maker can only make whole
// blocks of them.
func (r *Region) Slice(i, k int) *Slice {
	p, n := r.p, r.pieces()
	s := p.newSlice(len(r.Nodes), n.made, n.reads)
	s.region, s.numbers = r, n
	for k := range s.made {
		s.made[k].Axis = ops.Whole
	}
	wants := func(k int32, w Range) {
		if have := s.made[k]; have.Axis != ops.Whole {
			w.Lo, w.Hi = min(w.Lo, have.Lo), max(w.Hi, have.Hi)
		}
		s.made[k] = w
	}
	reads := s.reads // what is left of the room for NodeSlice.In
	for _, t := range r.Outputs {
		axis, rows := r.axisOf(t)
		if !rows {
			continue
		}
		lo, hi, ok := r.share(t, i, k)
		if !ok {
			return nil
		}
		s.Share[t] = Range{axis, lo, hi}
		wants(r.number(t), s.Share[t])
	}
	for x := len(r.Nodes) - 1; x >= 0; x-- {
		v := r.Nodes[x]
		node := p.g.Nodes[v]
		var in []ops.Rows
		var ns NodeSlice
		if sum := r.sum[v]; sum != nil {
			var ok bool
			if ns.Lo, ns.Hi, ok = share(sum.Length, r.over[v], i, k); !ok {
				return nil
			}
			in = sum.In
		} else {
			any := false
			for _, k := range n.out(x) {
				if k == noPiece {
					continue
				}
				if w := s.made[k]; w.Axis != ops.Whole {
					if !any {
						ns.Lo, ns.Hi, any = w.Lo, w.Hi, true
					}
					ns.Lo, ns.Hi = min(ns.Lo, w.Lo), max(ns.Hi, w.Hi)
				}
			}
			if !any {
				return nil
			}
			if b := block(r.cut(v).In); b > 1 {
				ns.Lo, ns.Hi = ns.Lo/b*b, min((ns.Hi+b-1)/b*b, r.rowsIn(v))
			}
			for j, k := range n.out(x) {
				if k != noPiece && r.cut(v).Out[j] != ops.Whole {
					s.made[k] = Range{r.cut(v).Out[j], ns.Lo, ns.Hi}
				}
			}
			in = r.cut(v).In
		}
		ns.In, reads = reads[:len(node.Inputs):len(node.Inputs)], reads[len(node.Inputs):]
		for j, t := range node.Inputs {
			ns.In[j].Axis = ops.Whole
			if t < 0 || in[j].Axis == ops.Whole {
				continue
			}
			lo, hi, ok := in[j].Of(ns.Lo, ns.Hi)
			if !ok {
				return nil
			}
			ns.In[j] = Range{in[j].Axis, lo, hi}
			if k := n.in(x)[j]; k >= 0 && lo < hi {
				wants(k, ns.In[j])
			}
		}
		s.Node[x] = ns
	}
	return s
}

// share returns the rows of output t that slice i of k makes; false if there are too many
// slices.
func (r *Region) share(t graph.TensorID, i, k int) (lo, hi int64, ok bool) {
	axis, _ := r.axisOf(t)
	return share(int64(r.p.g.Tensors[t].Type.Shape[axis]), r.block[t], i, k)
}

// share returns part i of k of a length, in whole blocks of rows; false if there are more
// parts than blocks.
func share(length, block int64, i, k int) (lo, hi int64, ok bool) {
	blocks := parts(length, block)
	if blocks < int64(k) {
		return 0, 0, false
	}
	if length%block > 0 {
		block = 1
	}
	return blocks * int64(i) / int64(k) * block, blocks * int64(i+1) / int64(k) * block, true
}

// parts returns the largest number of parts of a length: its blocks or, if they leave a
// remainder, its rows.
func parts(length, block int64) int64 {
	if length%block > 0 {
		return length
	}
	return length / block
}

// block returns the number of rows of which a node can make all or none.
func block(in []ops.Rows) int64 {
	b := int64(1)
	for _, w := range in {
		if w.Axis != ops.Whole {
			b = lcm(b, w.Divide)
		}
	}
	return b
}

// rowsIn returns the length of the axis of which a node makes rows.
func (r *Region) rowsIn(v int) int64 {
	for k, t := range r.p.g.Nodes[v].Outputs {
		if axis := r.cut(v).Out[k]; t >= 0 && axis != ops.Whole {
			return int64(r.p.g.Tensors[t].Type.Shape[axis])
		}
	}
	return 0
}

// blocks finds for each output, and for each sum, blocks of rows whose ends are ends of
// blocks of the nodes inside, so that no slice makes rows that only its neighbour wants.
// Halos move the ends of what is made inside, whatever the blocks.
func (r *Region) blocks() {
	r.fewest = math.MaxInt64
	for _, t := range r.Outputs {
		if axis, rows := r.axisOf(t); rows {
			length := int64(r.p.g.Tensors[t].Type.Shape[axis])
			r.block[t] = r.blockOf(length, 1)
			r.fewest = min(r.fewest, parts(length, r.block[t]))
		}
	}
	for v, sum := range r.sum {
		if r.over == nil {
			r.over = map[int]int64{}
		}
		r.over[v] = r.blockOf(sum.Length, block(sum.In))
		r.fewest = min(r.fewest, parts(sum.Length, r.over[v]))
	}
}

// blockOf returns the number of rows of a block on an axis of a length, which is a
// multiple of least.
func (r *Region) blockOf(length, least int64) int64 {
	all := least
	for _, v := range r.Nodes {
		if r.sum[v] != nil {
			continue
		}
		// Rows m*b of the axis are rows m*b*made/length of the node.
		if b, made := block(r.cut(v).In), r.rowsIn(v); b > 1 && made > 0 {
			all = lcm(all, b*length/gcd(b*length, made))
		}
	}
	if all > length/2 {
		return least
	}
	return all
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func lcm(a, b int64) int64 { return a / gcd(a, b) * b }
