package vm

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// hold gives a session of all points the parameters, states and caches, which have one
// type at all points. If the points share memory, their sessions work on these; else each
// run borrows them.
func (s *Session) hold() error {
	p, g := s.pr.p, s.pr.m.Graph
	s.main = &frame{s: s, g: g, tensors: make([]*tensor, len(g.Tensors))}
	s.updates = map[graph.TensorID]bool{}
	bytes := stateBytes(p)
	if bytes == 0 {
		return nil
	}
	err := s.mem.take(bytes)
	if err != nil {
		return s.overLimit(err, nil)
	}
	// No other page of the resident pool is ever touched.
	if s.resident, err = newBlock(poolBytes(p, plan.Resident), "resident pool"); err != nil {
		return err
	}
	named := byName(g)
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if !plan.Stays(b.Kind) {
			continue
		}
		for _, name := range [...]string{b.Tensors[0], s.pr.state[b.Tensors[0]]} {
			id := named[name]
			t := g.Tensors[id]
			x := &tensor{name: name, exact: true, room: b.Bytes}
			x.Type, x.Shape, x.At = t.Type.Elem, make([]int, len(t.Type.Shape)), unsafe.Add(s.resident.base, b.Offset)
			for k, n := range t.Type.Shape {
				x.Shape[k] = int(n)
			}
			s.main.tensors[id] = x
			s.updates[id] = t.Output
		}
	}
	return s.Reset()
}

// lend copies the parameters, states and caches that have values to the session of a
// point.
func (b *bindings) lend(s *Session) error {
	for _, t := range b.s.pr.States() {
		if !b.s.ready[t.Name] {
			continue
		}
		v, err := b.s.value(b.s.stateOf(t.Name))
		if err == nil {
			err = s.Set(t.Name, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// takeBack copies what a run has made of them.
func (b *bindings) takeBack(s *Session) error {
	for _, t := range b.s.pr.States() {
		if !b.s.ready[t.Name] {
			continue
		}
		v, err := s.value(s.stateOf(t.Name))
		if err == nil {
			err = b.s.Set(t.Name, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
