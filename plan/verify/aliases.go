package verify

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
)

// With sharing.aliases, tensors may lie in several buffers (spans), and several in one
// buffer that are no views of each other: a result of Concat lies where its operands lie.
// To check that, every buffer gets the list of pieces that it holds. A piece is what one
// node writes there, and is live as long as any storage that lies over it. Which node
// wrote the bytes of a storage follows from the places alone:
//
//	conv_3 = Conv(…)                     buffer 4: written by conv_3
//	conv_7 = Conv(…)                     buffer 5: written by conv_7
//	cat = Concat(conv_3, conv_7, other)  buffers 4, 5, 6: 4 and 5 hold these bytes already,
//	                                     6 is written by cat
//
// From there on pieces are storages like others: they have a size, a maker and readers.

// cell is one buffer of the place of a storage.
type cell struct {
	buffer int
	root   int32 // the storage whose maker wrote what lies there
}

// aliases makes pieces of the storages that the plan lays into several buffers, or over
// others.
func (s *scope) aliases(names map[string]graph.TensorID) {
	s.plain = slices.Clone(s.Storages)
	s.spanOf = make([]int32, len(s.g.Tensors))
	for t := range s.spanOf {
		s.spanOf[t] = none
	}
	places := s.places(names)
	content := make([][]cell, len(s.plain))
	for i := range s.plain {
		for _, k := range places[i] {
			content[i] = append(content[i], cell{k, int32(i)})
		}
	}
	for _, n := range s.g.Nodes {
		for out, t := range n.Outputs {
			if t < 0 || s.storageOf[t] == none || s.origins[s.storageOf[t]].tensors[0] != t {
				continue
			}
			s.inPlace(n, out, content)
		}
	}
	s.pieces(content)
	s.link()
}

// places returns the buffers in which the plan lays each storage, as far as they fit it.
func (s *scope) places(names map[string]graph.TensorID) [][]int {
	places := make([][]int, len(s.Storages))
	for k := range s.list {
		for _, name := range s.list[k].Tensors {
			if t, known := names[name]; known && s.storageOf[t] != none && places[s.storageOf[t]] == nil {
				places[s.storageOf[t]] = []int{k}
			}
		}
	}
	last := graph.TensorID(none) // the first tensor of the span before
	for x := range s.v.Plan.Spans {
		span := &s.v.Plan.Spans[x]
		bytes, ok := s.checkSpan(x)
		if t, known := names[slices.Concat(span.Tensors, []string{""})[0]]; known {
			if last != none && cmp.Or(s.compare(last, t), cmp.Compare(s.g.Tensors[last].Name, s.g.Tensors[t].Name)) > 0 {
				s.fault(CodeTensorOrder, "span %d: expected the spans in the order in which their tensors are made, found %s behind %s", x, s.name(t), s.name(last))
			}
			last = t
		}
		for j, name := range span.Tensors {
			t, known := names[name]
			switch {
			case !known || s.storageOf[t] == none || s.Storages[s.storageOf[t]].Outside:
				s.fault(CodeUnknown, "span %d: no tensor %q of fixed size in this graph", x, graph.Short(name))
				continue
			case s.spanOf[t] != none || slices.ContainsFunc(s.list, func(b plan.Buffer) bool { return slices.Contains(b.Tensors, name) }):
				s.fault(CodeDuplicate, "tensor %s is in span %d and in another place: expected one", s.name(t), x)
				continue
			}
			s.spanOf[t] = int32(x)
			i := s.storageOf[t]
			switch {
			case j > 0 && i != s.storageOf[names[span.Tensors[0]]]:
				s.fault(CodeView, "span %d: tensor %s is no view of %q: expected a span of its own", x, s.name(t), graph.Short(span.Tensors[0]))
			case ok && bytes != s.Storages[i].Bytes:
				s.fault(CodeSize, "span %d: expected buffers of %d bytes for %s, found %d", x, s.Storages[i].Bytes, s.name(t), bytes)
			case ok:
				places[i] = span.Buffers
			}
		}
		if !slices.IsSortedFunc(span.Tensors, func(a, b string) int { return s.compare(names[a], names[b]) }) {
			s.fault(CodeTensorOrder, "span %d: expected its tensors in the order in which they are made, found %s", x, quotedList(span.Tensors))
		}
	}
	return places
}

// checkSpan checks the buffers of a span and returns their size.
func (s *scope) checkSpan(x int) (bytes int64, ok bool) {
	span := &s.v.Plan.Spans[x]
	if len(span.Buffers) < 2 || len(span.Tensors) == 0 {
		s.fault(CodeAlias, "span %d: expected a tensor and two or more buffers, found %d and %d", x, len(span.Tensors), len(span.Buffers))
		return 0, false
	}
	for j, k := range span.Buffers {
		if k < 0 || k >= len(s.list) {
			s.fault(CodeAlias, "span %d: expected buffers below %d, found %d", x, len(s.list), k)
			return 0, false
		}
		b := &s.list[k]
		switch {
		case b.Pool != plan.Arena || b.Node != nil || b.Bytes <= 0 || b.Offset < 0:
			s.fault(CodeAlias, "span %d: buffer %d: expected bytes of pool %s for tensors", x, k, plan.Arena)
			return 0, false
		case j > 0 && s.list[span.Buffers[j-1]].Offset+s.list[span.Buffers[j-1]].Bytes != b.Offset:
			s.fault(CodeAlias, "span %d: expected buffer %d right behind buffer %d", x, k, span.Buffers[j-1])
			return 0, false
		}
		bytes = s.v.add(bytes, b.Bytes)
	}
	return bytes, !s.Sums.Overflow
}

// inPlace finds which cells of an output of a node hold its bytes already, since an input
// of which they are bytes lies there.
func (s *scope) inPlace(n *graph.Node, out int, content [][]cell) {
	cells := content[s.storageOf[n.Outputs[out]]]
	at := int64(0)
	for j := range cells {
		c := &cells[j]
		b := &s.list[c.buffer]
		for _, r := range n.Semantics.Ranges {
			if r.Out != out || b.Pool != plan.Arena || at < r.At || at+b.Bytes > s.v.round(r.At+r.Bytes) {
				continue
			}
			from := r.From + at - r.At
			// A range that ends within a multiple of the alignment is movable only at the end of
			// both tensors: else the node writes other bytes behind it, for each of its results.
			if x := s.storageOf[n.Inputs[r.In]]; x != none && s.movable(s.storageOf[n.Outputs[out]], x, r) {
				for _, y := range content[x] {
					if from == 0 && y.buffer == c.buffer {
						c.root = y.root
					}
					from -= s.list[y.buffer].Bytes
				}
			}
		}
		at += b.Bytes
	}
}

// exact reports whether a storage may share a part of its bytes: its size is known.
func (s *scope) exact(i int32) bool {
	o := &s.origins[i]
	return s.Counts(i) && !o.bounded && !s.Storages[i].Update && s.g.Tensors[o.tensors[0]].Bytes > 0
}

// pieces makes the storages of the scope from the contents of the plain ones. A storage
// that alone lies in one buffer, and was written there, stays as it is; the others have no
// bytes of their own.
func (s *scope) pieces(content [][]cell) {
	ids := map[cell]int32{}
	s.held = make([][]int32, len(s.list))
	piece := func(c cell) int32 {
		id, known := ids[c]
		if !known {
			root := &s.plain[c.root]
			id = int32(len(s.Storages))
			if cells := content[c.root]; len(cells) == 1 && cells[0] == c {
				id = c.root
			} else {
				s.Storages = append(s.Storages, core.Storage{
					Bytes: s.list[c.buffer].Bytes, Maker: root.Maker, Resident: root.Resident,
					Host: root.Host, First: root.First, Last: root.Last,
				})
				s.origins = append(s.origins, s.origins[c.root].part())
			}
			ids[c] = id
			s.held[c.buffer] = append(s.held[c.buffer], id)
		}
		return id
	}
	for i := range content {
		if len(content[i]) == 1 && content[i][0].root == int32(i) {
			piece(content[i][0])
			continue
		}
		for _, c := range content[i] {
			id := piece(c)
			s.Storages[i].Parts = append(s.Storages[i].Parts, id)
		}
		if len(content[i]) > 0 {
			s.Storages[i].Bytes = 0
		}
	}
	for i := range s.plain {
		for _, id := range s.Storages[i].Parts {
			st := &s.Storages[id]
			st.Readers = append(slices.Clone(st.Readers), s.plain[i].Readers...)
			o := &s.origins[id]
			o.covers = append(o.covers, s.origins[i].tensors...)
			st.Output = st.Output || s.plain[i].Output
		}
	}
	for id := range s.Storages {
		st := &s.Storages[id]
		slices.Sort(st.Readers)
		st.Readers = slices.Compact(st.Readers)
	}
}

// part is the origin of a part of a storage.
func (o *origin) part() origin { return origin{tensors: o.tensors[:1], input: o.input, piece: true} }

// checkNoAliases records a violation if a plan whose kind has no aliases claims some.
func (v *verifier) checkNoAliases() {
	p := v.Plan
	switch {
	case !p.Sharing.Aliases && len(p.Spans) > 0:
		v.Fault(CodeAlias, "spans: expected none without sharing.aliases, found %d", len(p.Spans))
	case !p.Sharing.Aliases:
	case p.Ranges != nil && p.Ranges.Proof != plan.ProofEnumerated:
		v.Fault(CodeAlias, "sharing: aliases: expected none with bounded lengths, which do not say where parts begin")
	case len(p.Tiers()) > 0:
		v.Fault(CodeAlias, "sharing: aliases: expected none in a plan with several pools")
	}
}

// withoutAliases returns the scope as it is without aliases: each storage has its own
// bytes.
func (s *scope) withoutAliases() *scope {
	if s.plain == nil {
		return s
	}
	plain := *s
	plain.Storages, plain.origins = slices.Clone(s.plain), slices.Clip(s.origins[:len(s.plain)])
	for i := range plain.Storages {
		plain.Storages[i].Resident = s.Storages[i].Resident
	}
	pieces := func(u core.Update) bool { return max(u.Old, u.New) >= int32(len(s.plain)) } // of a plan that is not valid
	plain.Chained = slices.DeleteFunc(slices.Clone(s.Chained), pieces)
	plain.plain = nil
	plain.link()
	return &plain
}
