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

// rows are those that a slice takes of an input.
type rows struct {
	Range
	piece int
}

// pieces numbers the tensors that a region makes and reads. Many regions are kept, so that these
// are few bytes.
type pieces struct {
	made   int     // how many it makes: the first pieces
	reads  int     // how many inputs its nodes have
	list   []int32 // of each node: the numbers of its inputs, then of its outputs
	from   []int32 // where those of each node begin, inputs and outputs apart
	inFile []bool  // whether the rows of each input of the region are initializers ([Region.cutInFile])
}

// in returns of each input of a node, by its place in the region's list: its number if the region makes it, -1 - its
// place in Inputs if not.
func (n *pieces) in(x int) []int32 { return n.list[n.from[2*x]:n.from[2*x+1]] }

// out returns the number of each output of a node.
func (n *pieces) out(x int) []int32 { return n.list[n.from[2*x+1]:n.from[2*x+2]] }

// noPiece stands for an input or output that is left out, and for an input that is read
// whole or from parts in the file.
const noPiece = math.MinInt32

// pieces returns the numbers, which do not depend on the slice.
func (r *Region) pieces() *pieces {
	if r.numbers != nil {
		return r.numbers
	}
	size := 0
	for _, v := range r.Nodes {
		size += len(r.p.g.Nodes[v].Inputs) + len(r.p.g.Nodes[v].Outputs)
	}
	n := &pieces{list: make([]int32, 0, size), from: make([]int32, 1, 2*len(r.Nodes)+1), inFile: make([]bool, len(r.Inputs))}
	if r.p.places == nil {
		r.p.places = make([]int32, len(r.p.g.Tensors))
	}
	numbers := r.p.places // of the tensors: the numbers, as in the lists, where they are known
	for j, t := range r.Inputs {
		numbers[t], n.inFile[j] = int32(-1-j), r.cutInFile(t)
	}
	add := func(list []graph.TensorID) {
		for _, t := range list {
			k := int32(noPiece)
			if t >= 0 {
				k = numbers[t]
			}
			n.list = append(n.list, k)
		}
		n.from = append(n.from, int32(len(n.list)))
	}
	for _, v := range r.Nodes {
		node := r.p.g.Nodes[v]
		for _, t := range node.Outputs {
			if t >= 0 {
				numbers[t] = int32(n.made)
				n.made++
			}
		}
		add(node.Inputs)
		add(node.Outputs)
		n.reads += len(node.Inputs)
	}
	r.numbers = n
	return n
}

// number returns the number of a tensor that the region makes.
func (r *Region) number(t graph.TensorID) int32 {
	v := int(r.p.g.Tensors[t].Maker)
	x, _ := slices.BinarySearch(r.Nodes, v)
	return r.pieces().out(x)[slices.Index(r.p.g.Nodes[v].Outputs, t)]
}

// inner returns the largest load of what one slice makes and cuts, in the order of the
// region's nodes. It also returns the bytes of the rows that it takes of each input; -1 for
// one of which it reads all.
func (r *Region) inner(s *Slice) (peak int64, took []int64) {
	p, n := r.p, r.pieces()
	list := zeroed(p.room.pieces, n.made)
	for k := range list {
		list[k] = piece{last: -1, root: k}
	}
	taken := slices.Grow(p.room.taken[:0], len(r.Inputs))[:len(r.Inputs)]
	for i := range taken {
		taken[i] = taken[i][:0]
	}
	took = make([]int64, len(r.Inputs))
	reads, room := zeroed(p.room.reads, len(r.Nodes)), zeroed(p.room.numbers, n.reads) // of each input of each node: the piece, or noPiece
	p.room.taken, p.room.reads, p.room.numbers = taken, reads, room
	for x, v := range r.Nodes {
		in := n.in(x)
		reads[x], room = room[:len(in)], room[len(in):]
		for j, number := range in {
			k := int(number)
			if k < 0 && k != noPiece {
				t, w, input := p.g.Nodes[v].Inputs[j], s.Node[x].In[j], -1-k
				k = noPiece
				if w.Axis == ops.Whole || w.Hi-w.Lo == int64(p.g.Tensors[t].Type.Shape[w.Axis]) {
					took[input] = -1
				} else if !n.inFile[input] {
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
	now := p.room.live[:0] // the live pieces
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
			k := int(n.out(x)[o])
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
	p.room.pieces, p.room.live = list, now
	return peak + r.state(), took
}
