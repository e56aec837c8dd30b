package slicing

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// piece is what a slice makes or takes of a tensor.
type piece struct {
	bytes int64
	last  int // the place in the region's list of the last node that reads it
	root  int // the piece in whose memory it lies
	live  bool
}

// pieces numbers the tensors that a region makes and reads.
type pieces struct {
	made  int     // how many it makes: the first pieces
	reads int     // how many inputs its nodes have
	in    [][]int // of each input of each node: its number if the region makes it, -1 - its place in Inputs if not
	out   [][]int // of each output of each node: its number
}

// noPiece stands for an input or output that is left out, and for an input that is read
// whole or from parts in the file.
const noPiece = math.MinInt

// pieces returns the numbers, which do not depend on the slice.
func (r *Region) pieces() *pieces {
	if r.numbers != nil {
		return r.numbers
	}
	n := &pieces{in: make([][]int, len(r.Nodes)), out: make([][]int, len(r.Nodes))}
	if r.p.places == nil {
		r.p.places = make([]int32, len(r.p.g.Tensors))
	}
	numbers := r.p.places // of the tensors: the numbers, as in the lists, where they are known
	for j, t := range r.Inputs {
		numbers[t] = int32(-1 - j)
	}
	for x, v := range r.Nodes {
		node := r.p.g.Nodes[v]
		n.in[x], n.out[x] = make([]int, len(node.Inputs)), make([]int, len(node.Outputs))
		for k, t := range node.Outputs {
			if n.out[x][k] = noPiece; t >= 0 {
				numbers[t], n.out[x][k] = int32(n.made), n.made
				n.made++
			}
		}
		for j, t := range node.Inputs {
			if n.in[x][j] = noPiece; t >= 0 {
				n.in[x][j] = int(numbers[t])
			}
		}
		n.reads += len(node.Inputs)
	}
	r.numbers = n
	return n
}

// number returns the number of a tensor that the region makes.
func (r *Region) number(t graph.TensorID) int {
	v := int(r.p.g.Tensors[t].Maker)
	x, _ := slices.BinarySearch(r.Nodes, v)
	return r.pieces().out[x][slices.Index(r.p.g.Nodes[v].Outputs, t)]
}

// inner returns the largest load of what one slice makes and cuts, in the order of the
// region's nodes. It also returns the bytes of the rows that it takes of each input; -1 for
// one of which it reads all.
func (r *Region) inner(s *Slice) (peak int64, took []int64) {
	p, n := r.p, r.pieces()
	list := make([]piece, n.made, n.made+len(r.Inputs))
	for k := range list {
		list[k] = piece{last: -1, root: k}
	}
	type rows struct {
		Range
		piece int
	}
	taken := make([][]rows, len(r.Inputs))
	took = make([]int64, len(r.Inputs))
	reads := make([][]int, len(r.Nodes)) // of each input of each node: the piece, or noPiece
	for x, v := range r.Nodes {
		reads[x] = make([]int, len(n.in[x]))
		for j, k := range n.in[x] {
			if k < 0 && k != noPiece {
				t, w, input := p.g.Nodes[v].Inputs[j], s.Node[x].In[j], -1-k
				k = noPiece
				if w.Axis == ops.Whole || w.Hi-w.Lo == int64(p.g.Tensors[t].Type.Shape[w.Axis]) {
					took[input] = -1
				} else if !r.cutInFile(t) {
					at := slices.IndexFunc(taken[input], func(have rows) bool { return have.Range == w })
					if at < 0 {
						at = len(taken[input])
						taken[input] = append(taken[input], rows{w, len(list)})
						list = append(list, piece{bytes: p.rowBytes(t, w.Axis, w.Hi-w.Lo), root: len(list)})
						if took[input] >= 0 {
							took[input] += p.rowBytes(t, w.Axis, w.Hi-w.Lo)
						}
					}
					k = taken[input][at].piece
				}
			}
			if reads[x][j] = k; k != noPiece {
				list[k].last = x
			}
		}
	}
	live := int64(0)
	var now []int // the live pieces
	add := func(k int) {
		if !list[k].live {
			list[k].live = true
			live += list[k].bytes
			now = append(now, k)
		}
	}
	for x, v := range r.Nodes {
		node := p.g.Nodes[v]
		for _, k := range reads[x] {
			if k >= n.made {
				add(k)
			}
		}
		for o, t := range node.Outputs {
			k := n.out[x][o]
			if k == noPiece {
				continue
			}
			size := p.g.Tensors[t].Bytes
			if w := s.made[k]; w.Axis != ops.Whole {
				size = p.rowBytes(t, w.Axis, w.Hi-w.Lo)
			}
			over := -1
			for _, a := range node.Semantics.Views {
				if a.Out == o && reads[x][a.In] != noPiece {
					over = list[reads[x][a.In]].root
				}
			}
			if sum := r.sum[v]; sum != nil && adds(node, sum) {
				continue // it adds to the output in place
			}
			for _, a := range node.Semantics.Inplace {
				if a.Out == o && over < 0 && reads[x][a.In] != noPiece {
					if q := list[reads[x][a.In]].root; list[q].last <= x && list[q].bytes == size {
						over = q
					}
				}
			}
			if over >= 0 {
				list[k].root = over
				list[over].last = max(list[over].last, list[k].last)
				continue
			}
			list[k].bytes = size
			add(k)
			list[k].last = max(list[k].last, x)
		}
		peak = max(peak, live)
		now = slices.DeleteFunc(now, func(k int) bool {
			if list[k].last > x {
				return false
			}
			live -= list[k].bytes
			return true
		})
	}
	return peak + r.state(), took
}
