package slicing

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// windows finds windows of a program that are the same: those of repeated layers. All that is
// estimated of a window follows from what a text of each of its nodes says: the operator, its
// types and dimension maps, and how far away the nodes are that touch the same storages.
// Distances end at the reach, since no window has more nodes. What lives over the whole window
// is not in the texts.
type windows struct {
	kind  []int32              // of each node: equal numbers, equal texts
	sum   []uint64             // of the kinds before each node: a polynomial
	power []uint64             // of its base
	list  map[uint64][]*window // by the part of the sum that is theirs
}

// window is a window with its candidates, which are those of all windows that are the same.
type window struct {
	start, length int
	list          []*candidate // nil: not known yet
	held          int64        // no limit below that is met, beside what lives over the window
	least         float64      // the least extra time of all of them in nanoseconds, where it is known
}

// base is that of the polynomials: any odd number.
const base = 0x9e3779b97f4a7c15

func newWindows(p *Program, reach int) *windows {
	n := len(p.g.Nodes)
	w := &windows{kind: make([]int32, n), sum: make([]uint64, n+1), power: make([]uint64, n+1), list: map[uint64][]*window{}}
	t := newTexts(p, reach)
	kinds := map[string]int32{}
	w.power[0] = 1
	for v := range n {
		text := t.of(v)
		kind, known := kinds[string(text)]
		if !known {
			kind = int32(len(kinds))
			kinds[string(text)] = kind
		}
		w.kind[v] = kind
		w.sum[v+1] = w.sum[v]*base + uint64(kind) + 1
		w.power[v+1] = w.power[v] * base
	}
	return w
}

// find returns the window that stands for [from, to].
func (w *windows) find(from, to int) *window {
	kinds := w.kind[from : to+1]
	for _, x := range w.list[w.key(from, to)] {
		if slices.Equal(w.kind[x.start:x.start+x.length], kinds) {
			return x
		}
	}
	return w.add(from, to)
}

// add returns a new window that stands for [from, to].
func (w *windows) add(from, to int) *window {
	x := &window{start: from, length: to + 1 - from}
	w.list[w.key(from, to)] = append(w.list[w.key(from, to)], x)
	return x
}

// key is that of a window in the list.
func (w *windows) key(from, to int) uint64 {
	return w.sum[to+1] - w.sum[from]*w.power[to+1-from]
}

// texts writes what decides about the candidates of windows.
type texts struct {
	p       *Program
	reach   int
	tensors map[graph.TensorID]touch // of each tensor: the node before that touches it
	storage map[int32]touch          // and of each storage
	readers [][]int32                // of each storage: the nodes that read it, ascending
	first   []int                    // and the first and the last that touch it
	final   []int
	owner   int32 // the last one that is not negative
	text    []byte
}

// touch is a node that makes or reads a tensor.
type touch struct {
	step  int
	place int64 // of the tensor among the outputs or, from -1 down, among what the node reads
}

func newTexts(p *Program, reach int) *texts {
	x := &texts{p: p, reach: reach, tensors: map[graph.TensorID]touch{}, storage: map[int32]touch{}, readers: make([][]int32, len(p.Storages)), owner: -1}
	x.first, x.final = make([]int, len(p.Storages)), make([]int, len(p.Storages))
	for i := range x.first {
		x.first[i] = -1
	}
	for v, n := range p.g.Nodes {
		touches := func(t graph.TensorID, reads bool) {
			i := p.Of[t]
			if i < 0 {
				return
			}
			if x.final[i] = v; x.first[i] < 0 {
				x.first[i] = v
			}
			if reads {
				x.readers[i] = append(x.readers[i], int32(v))
			}
		}
		n.Reads(func(t graph.TensorID) { touches(t, true) })
		for _, t := range n.Outputs {
			if t >= 0 {
				touches(t, false)
			}
		}
	}
	return x
}

func (x *texts) int(v int64) { x.text = binary.AppendVarint(x.text, v) }

func (x *texts) ints(list ...int64) {
	x.int(int64(len(list)))
	for _, v := range list {
		x.int(v)
	}
}

func (x *texts) string(s string) {
	x.int(int64(len(s)))
	x.text = append(x.text, s...)
}

func (x *texts) bools(list ...bool) {
	bits := int64(0)
	for i, b := range list {
		if b {
			bits |= 1 << i
		}
	}
	x.int(bits)
}

// distance writes how far a step is from a node, if that is within reach.
func (x *texts) distance(v, step int) {
	x.int(int64(min(max(step-v, -x.reach-1), x.reach+1)))
}

// before writes which node touched the same before, if one within reach did.
func (x *texts) before(v int, last touch, touched bool) {
	if !touched || v-last.step > x.reach {
		x.int(0)
		return
	}
	x.ints(int64(v-last.step), last.place)
}

// around writes whether a node before reads the same, and how far away the next one is that
// does.
func around[T ~int32](x *texts, v int, readers []T) {
	from, _ := slices.BinarySearch(readers, T(v))
	to, _ := slices.BinarySearch(readers, T(v+1))
	behind := math.MaxInt32
	if to < len(readers) {
		behind = int(readers[to])
	}
	x.bools(from > 0, to < len(readers)) // one beyond reach has a distance of none at all
	x.distance(v, behind)
}

// of returns the text of a node. The nodes must be asked for one after the other.
func (x *texts) of(v int) []byte {
	p, n := x.p, x.p.g.Nodes[v]
	x.text = x.text[:0]
	x.string(n.Domain)
	x.string(n.Op)
	x.ints(int64(n.Semantics.FLOPs), p.Workspace[v], p.saved[v])
	x.ints(int64(len(n.Attrs)), int64(len(n.Inputs)), int64(len(n.Outputs)), int64(len(n.Captures)))
	x.bools(p.mayRunInSlices(v), p.view(n), ops.Copies(n), ops.ReadsOutput(n))
	x.owners(v)
	for _, a := range n.Attrs {
		x.attribute(v, a)
	}
	for _, list := range [][]graph.Alias{n.Semantics.Views, n.Semantics.Inplace} {
		x.int(int64(len(list)))
		for _, a := range list {
			x.ints(int64(a.Out), int64(a.In))
		}
	}
	x.cuts(v)
	place := int64(0)
	n.Reads(func(t graph.TensorID) {
		place--
		x.tensor(v, t, place)
	})
	for _, t := range n.Inputs {
		x.bools(t >= 0)
	}
	for k, t := range n.Outputs {
		if x.bools(t >= 0); t >= 0 {
			x.tensor(v, t, int64(k))
		}
	}
	for _, list := range [][]int32{p.begin[v], p.end[v]} {
		bytes := int64(0)
		for _, i := range list {
			bytes += p.Storages[i].Bytes
		}
		x.ints(int64(len(list)), bytes)
	}
	return x.text
}

// owners writes whether the node belongs to the slice to which the nodes before belong.
func (x *texts) owners(v int) {
	now := x.p.owner(v)
	x.bools(now >= 0, now == x.owner)
	if now >= 0 {
		x.owner = now
	}
}

// attribute writes one. Graphs and large tensors are never the same.
func (x *texts) attribute(v int, a *graph.Attr) {
	x.string(a.Name)
	x.ints(int64(a.Type), a.Int, int64(math.Float32bits(a.Float)))
	x.ints(a.Ints...)
	x.string(a.String)
	x.ints(int64(len(a.Floats)), int64(len(a.Strings)))
	for _, f := range a.Floats {
		x.int(int64(math.Float32bits(f)))
	}
	for _, s := range a.Strings {
		x.string(s)
	}
	if d := a.Tensor; d != nil && d.Raw != nil && len(d.Raw) <= smallConstant {
		x.int(int64(d.Type))
		x.ints(d.Dims...)
		x.string(string(d.Raw))
	} else if d != nil || a.Tensors != nil || a.Sparse != nil || a.Graph != nil || a.Graphs != nil || a.TypeOf != nil {
		x.int(int64(v))
	}
}

// smallConstant is the size in bytes up to which constants are compared.
const smallConstant = 64

// cuts writes the dimension maps of a node.
func (x *texts) cuts(v int) {
	n := x.p.g.Nodes[v]
	if len(n.Outputs) == 0 || n.Outputs[0] < 0 {
		return
	}
	for axis := range x.p.shape(n.Outputs[0]) {
		c := x.p.cut(v, axis)
		if x.bools(c != nil); c == nil {
			continue
		}
		for _, w := range c.In {
			x.ints(int64(w.Axis), w.Length, w.Scale, w.Divide, w.Before, w.After)
			x.bools(w.Empty)
		}
		for _, k := range c.Out {
			x.int(int64(k))
		}
		x.ints(c.Modulo...)
	}
}

// tensor writes what a node makes or reads.
func (x *texts) tensor(v int, t graph.TensorID, place int64) {
	p, d, now := x.p, x.p.g.Tensors[t], touch{v, place}
	constant := d.Data != nil && !d.Input && p.whole(t) == 0
	small := constant && d.Bytes <= smallConstant // who else reads it changes nothing
	spread := constant && x.wide(d.Readers)
	if x.bools(small, spread); !small {
		x.int(int64(min(len(d.Readers), mostAlone+1)))
		last, touched := x.tensors[t]
		x.before(v, last, touched)
		x.tensors[t] = now
		if !spread {
			around(x, v, d.Readers)
		}
	}
	x.types(d.Type)
	for _, e := range p.Elsewhere {
		x.types(e.Model.Graph.Tensors[t].Type)
	}
	x.bools(d.Output, d.Input, p.Keep[d.Name], d.Data != nil, d.Maker >= 0, p.resident(t), p.Of[t] >= 0, p.Lists[t],
		d.Data != nil && p.Rows != nil && p.readable(t), p.Sums && p.zero(t))
	axis, part := p.Divided[t]
	x.ints(d.Bytes, int64(axis), int64(p.joined[t]))
	x.bools(part)
	if list, known := p.Inference.Values[t].Ints(); known && len(list) <= smallConstant/8 {
		x.ints(list...)
	}
	if i := p.Of[t]; i >= 0 && !constant {
		st := &p.Storages[i]
		x.bools(st.Input, st.Output, st.Resident, p.g.Tensors[st.Tensors[0]].Maker >= 0)
		x.int(st.Bytes)
		x.lives(v, i)
		last, touched := x.storage[i]
		x.before(v, last, touched)
		x.storage[i] = now
		around(x, v, x.readers[i])
	}
}

// wide reports whether no window has all readers of an initializer, so that its rows are in no
// file.
func (x *texts) wide(readers []graph.NodeID) bool {
	return len(readers) > 1 && int(slices.Max(readers)-slices.Min(readers)) >= x.reach
}

// lives writes when a storage is live. If nodes that touch it are the first and the last, their
// texts say so. The text of the first node of all has what is live from it on, and that of the
// last node what is live up to it.
func (x *texts) lives(v int, i int32) {
	st := &x.p.Storages[i]
	if st.Resident {
		return
	}
	for _, end := range []struct{ step, touch, outermost int }{{st.First, x.first[i], 0}, {st.Last, x.final[i], len(x.p.g.Nodes) - 1}} {
		far := end.step == end.outermost
		if x.bools(end.step == v, end.step == end.touch, far); end.step != end.touch && !far {
			x.distance(v, end.step)
		}
	}
}

func (x *texts) types(t graph.Type) {
	x.bools(t.Exact())
	x.ints(int64(t.Kind), int64(t.Elem), int64(len(t.Shape)))
	for _, d := range t.Shape {
		x.int(int64(d))
	}
}
