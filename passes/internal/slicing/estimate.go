package slicing

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/cost"
	"github.com/onnxmem/onnxmem/ops"
)

// Choice is a region with the number of its slices.
type Choice struct {
	*Region
	Slices  int
	Peak    int64                             // the estimated load of the window, in bytes
	Extra   float64                           // estimated extra time in nanoseconds
	streams map[graph.TensorID]graph.TensorID // outputs that are written over inputs
	late    map[graph.TensorID]bool           // of these inputs: slices take their rows before the slice before them writes its own
}

// In returns the region in k slices, without an estimate; nil if it cannot be cut into that
// many.
func (r *Region) In(k int) *Choice {
	of := r.signature()
	if !r.measured(of, k).possible {
		return nil
	}
	c := &Choice{Region: r, Slices: k}
	c.streams, c.late = r.streams(of, r.mayStream(), k)
	return c
}

// frame is what the estimates of one region for all numbers of slices share. Bytes that live
// before, over and behind the whole window are left out ([Program.across]).
type frame struct {
	held  int64 // bytes that are live while the slices run, without what they make
	other int64 // the largest load of the nodes before and behind the slices
}

// frame computes what does not depend on the number of slices: the loads of the window's
// nodes when those before the slices run first, then the slices, in one step, then those
// behind. What slices make but the outputs is left out, and so are the outputs while the
// slices run.
func (r *Region) frame() frame {
	p := r.p
	run := 0 // the step at which the slices run
	for _, c := range r.class {
		if c == before {
			run++
		}
	}
	at, next := make([]int, len(r.class)), [2]int{0, run + 1}
	for x, c := range r.class {
		switch c {
		case before:
			at[x] = next[0]
			next[0]++
		case behind:
			at[x] = next[1]
			next[1]++
		default:
			at[x] = run
		}
	}
	end := next[1]
	step := func(v int) int { return at[v-r.Start] }
	outputs := map[int32]bool{}
	for _, t := range r.Outputs {
		outputs[p.Of[t]] = true
	}
	loads := make([]int64, end+1)
	add := func(i int32) {
		st := &p.Storages[i]
		first, last := 0, end-1
		if st.First >= r.Start && p.g.Tensors[st.Tensors[0]].Maker >= 0 {
			if first = step(st.First); r.has(st.First) {
				if !outputs[i] {
					return
				}
				first = run + 1
			}
		}
		if st.Last <= r.End {
			last = first
			for _, t := range st.Tensors {
				for _, q := range p.g.Tensors[t].Readers {
					if v := int(q); v >= r.Start {
						last = max(last, step(v))
					}
				}
				if v := int(p.g.Tensors[t].Maker); v >= r.Start {
					last = max(last, step(v))
				}
			}
		}
		if first <= last && first < end {
			loads[first] += st.Bytes
			loads[last+1] -= st.Bytes
		}
	}
	for v := r.Start; v <= r.End; v++ {
		for _, i := range p.begin[v] {
			add(i)
		}
		for _, i := range p.end[v] {
			if p.Storages[i].First < r.Start {
				add(i)
			}
		}
	}
	for x := 1; x < end; x++ {
		loads[x] += loads[x-1]
	}
	f := frame{held: loads[run]}
	for x, c := range r.class {
		if v := r.Start + x; c == before || c == behind {
			f.other = max(f.other, loads[at[x]]+p.Workspace[v]-p.saved[v])
		}
	}
	return f
}

// wholeTime returns the time of the region's nodes when they run whole.
func (r *Region) wholeTime() float64 {
	if r.whole == nil {
		ns := 0.0
		for _, v := range r.Nodes {
			if n := r.p.g.Nodes[v]; !r.p.view(n) {
				ns += r.p.wholeTime(v)
			}
		}
		r.whole = &ns
	}
	return *r.whole
}

// wholeTime returns the time of a node that runs whole.
func (p *Program) wholeTime(v int) float64 {
	if p.times == nil {
		p.times = make([]float64, len(p.g.Nodes))
		for i := range p.times {
			p.times[i] = -1
		}
	}
	if p.times[v] < 0 {
		p.times[v] = p.time(v, cost.Whole(p.g, p.g.Nodes[v]))
	}
	return p.times[v]
}

// room is that of lists that estimates need for a moment, for one call at a time.
type room struct {
	in, out []cost.Tensor
	lengths []graph.Dim
	pieces  []piece
	reads   [][]int
	numbers []int
	taken   [][]rows
	live    []int
	text    []byte
	seen    []bool
}

// time returns the time of a slice: of its copies of the nodes, of taking the rows of
// inputs, and of putting those of outputs. The first slice adds to no sum.
func (r *Region) time(s *Slice, first bool) (ns float64) {
	p := r.p
	var cuts []taken
	in, out, lengths := p.room.in, p.room.out, p.room.lengths
	defer func() { p.room.in, p.room.out, p.room.lengths = in, out, lengths }()
	for x, v := range r.Nodes {
		n, ns1 := p.g.Nodes[v], s.Node[x]
		in, out, lengths = in[:0], out[:0], lengths[:0]
		part := 1.0
		for j, t := range n.Inputs {
			if t < 0 || slices.Contains(n.Inputs[:j], t) {
				continue
			}
			whole := cost.TensorOf(p.g, t)
			w := ns1.In[j]
			if w.Axis == ops.Whole {
				in = append(in, whole)
				continue
			}
			rows := whole.RowsIn(&lengths, w.Axis, w.Hi-w.Lo)
			in = append(in, rows)
			made := s.numbers.in(x)[j]
			if length := int64(whole.Lengths[w.Axis]); made < 0 && w.Hi-w.Lo < length && !slices.Contains(cuts, taken{t, w}) && !s.numbers.inFile[-1-made] {
				cuts = append(cuts, taken{t, w})
				ns += p.Cost(cost.Copy(rows.Bytes))
			} else if made >= 0 && (s.made[made].Lo != w.Lo || s.made[made].Hi != w.Hi) {
				ns += p.Cost(cost.Copy(rows.Bytes))
			}
		}
		sum := r.sum[v]
		added := 0.0 // bytes of sums to which the copy itself adds
		if sum != nil {
			part = float64(ns1.Hi-ns1.Lo) / float64(sum.Length)
		}
		for o, t := range n.Outputs {
			if t < 0 {
				continue
			}
			whole := cost.TensorOf(p.g, t)
			if sum != nil {
				out = append(out, whole)
				switch {
				case first:
				case adds(n, sum):
					added += whole.Bytes
				default:
					ns += p.Cost(cost.Work{Bytes: 3 * whole.Bytes})
				}
			} else if w := s.made[s.numbers.out(x)[o]]; w.Axis != ops.Whole {
				out = append(out, whole.RowsIn(&lengths, w.Axis, w.Hi-w.Lo))
				part = float64(w.Hi-w.Lo) / float64(whole.Lengths[w.Axis])
			}
		}
		if !p.view(n) {
			w := cost.Of(p.g, n, part*float64(n.Semantics.FLOPs), in, out)
			w.Bytes += added
			ns += p.time(v, w)
		}
	}
	for _, a := range r.pieced {
		ns += r.timeOfPieces(a, s, first)
	}
	for _, t := range r.Outputs {
		if w, rows := s.Share[t]; rows {
			put := p.Cost(cost.Copy(cost.TensorOf(p.g, t).RowsIn(&lengths, w.Axis, w.Hi-w.Lo).Bytes))
			if ns += put; w != s.made[r.number(t)] {
				ns += put // its rows are taken from those that the slice makes
			}
		}
	}
	return ns
}

// distinct returns the tensors of a list that are there, each once.
func distinct(list []graph.TensorID) (out []graph.TensorID) {
	for i, t := range list {
		again := t < 0
		for _, u := range list[:i] {
			again = again || u == t
		}
		if !again {
			out = append(out, t)
		}
	}
	return out
}
