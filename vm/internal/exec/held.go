package exec

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/program"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// hold gives a session of all points the parameters, states and caches. If the points share
// memory, their sessions work on these; else each run borrows them. A cache has the room of
// the largest lengths and the shape of the point that ran last.
func (s *Session) hold() error {
	p, g := s.Program.Plan, s.Program.Model.Graph
	s.main = &lower.Frame{Site: &s.Site, Graph: g, Tensors: make([]*values.Tensor, len(g.Tensors))}
	s.states.updates = map[graph.TensorID]bool{}
	bytes := program.StateBytes(p)
	if bytes == 0 {
		return nil
	}
	err := s.Mem.Take(bytes)
	if err != nil {
		return s.overLimit(err, nil)
	}
	// No other page of the resident pool is ever touched.
	if s.Mem.Resident, err = store.NewBlock(program.PoolBytes(p, plan.Resident), "resident pool"); err != nil {
		return err
	}
	named := program.ByName(g)
	s.states.caches, s.states.fresh = map[string]bool{}, map[string]bool{}
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if !plan.Stays(b.Kind) {
			continue
		}
		s.states.caches[b.Tensors[0]] = b.Kind == plan.KindCache
		for _, name := range [...]string{b.Tensors[0], s.Program.Next[b.Tensors[0]]} {
			id := named[name]
			t := g.Tensors[id]
			x := &values.Tensor{Name: name, Exact: true, Room: b.Bytes}
			x.Type, x.Shape, x.At = t.Type.Elem, make([]int, len(t.Type.Shape)), unsafe.Add(s.Mem.Resident.Base, b.Offset)
			for k, n := range t.Type.Shape {
				x.Shape[k] = int(n)
			}
			s.main.Tensors[id] = x
			s.states.updates[id] = t.Output
		}
	}
	return s.Reset()
}

// shape gives the caches of the session of all points the shapes that they have at a point.
// Zeros, as Reset leaves them, have any shape; a cache that a run has written, or that was
// set, keeps its own, unless the run's inputs have a value for it.
func (b *bindings) shape(at *Session, inputs map[string]values.Value) error {
	for _, c := range b.s.Program.Caches() {
		x := b.s.stateOf(c.Name)
		_, given := inputs[c.Name]
		want := at.stateOf(c.Name).Shape
		if slices.Equal(x.Shape, want) {
			continue
		}
		if !given && b.s.states.ready[c.Name] && !b.s.states.fresh[c.Name] {
			return b.s.named(values.About(c.Name, fmt.Errorf("the cache holds %v, expected shape %v for %s: expected Reset, Restore or a value of that shape before", values.TypeOf(x), want, at.Program.Where())))
		}
		b.s.shapeState(c.Name, want)
	}
	return nil
}

// shapeState gives a cache, and its next value, a shape.
func (s *Session) shapeState(name string, shape []int) {
	next := s.Program.Next[name]
	for _, t := range s.main.Tensors {
		if t != nil && (t.Name == name || t.Name == next) {
			t.Shape = slices.Clone(shape)
		}
	}
}

// takesShape reports whether a cache of a session of all points may have the shape of a
// value. The run says whether it is the one of its point.
func (s *Session) takesShape(name string, v values.Value) bool {
	if s.points == nil || !s.states.caches[name] || !v.IsTensor() {
		return false
	}
	t := s.stateOf(name)
	bytes, err := values.SizeOf(v.Type, v.Shape)
	return err == nil && v.Type == t.Type && len(v.Shape) == len(t.Shape) && bytes <= t.Room
}

// lend copies the parameters, states and caches that have values to the session of a
// point.
func (b *bindings) lend(s *Session) error {
	for _, t := range b.s.Program.States() {
		if !b.s.states.ready[t.Name] {
			continue
		}
		v, err := b.s.ValueOf(b.s.stateOf(t.Name))
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
	for _, t := range b.s.Program.States() {
		if !b.s.states.ready[t.Name] {
			continue
		}
		v, err := s.ValueOf(s.stateOf(t.Name))
		if err == nil {
			err = b.s.Set(t.Name, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
