package exec

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// Reset fills all caches with zeros, as in a new session. Parameters and states of a
// training graph stay as they are. No run may be in progress.
func (s *Session) Reset() error {
	for _, c := range s.Program.Caches() {
		t := s.stateOf(c.Name)
		if err := s.fetch(t); err != nil { // copies to this place must have been done
			return err
		}
		bytes := int64(t.Bytes())
		if s.points != nil {
			bytes = t.Room // the next run may have another shape
			s.states.fresh[c.Name] = true
		}
		clear(unsafe.Slice((*byte)(t.At), bytes))
		s.WroteOnHost(t)
		s.states.ready[c.Name] = true
	}
	return nil
}

// Snapshot is what the caches of a session held. It belongs to no session.
type Snapshot struct{ values map[string]values.Value }

// Bytes is the size of the values.
func (p Snapshot) Bytes() (sum int64) {
	for _, v := range p.values {
		sum += int64(len(v.Data))
	}
	return sum
}

// Snapshot copies the caches: a prompt that several continuations share is run once. No
// run may be in progress.
func (s *Session) Snapshot() (Snapshot, error) {
	p := Snapshot{map[string]values.Value{}}
	for _, c := range s.Program.Caches() {
		if !s.states.ready[c.Name] {
			return Snapshot{}, fmt.Errorf("cache %q was lost by a run that failed: expected Reset, Restore or Set before", graph.Short(c.Name))
		}
		t := s.stateOf(c.Name)
		if err := s.fetch(t); err != nil {
			return Snapshot{}, err
		}
		v := values.Value{Type: t.Type, Shape: slices.Clone(t.Shape), Data: slices.Clone(unsafe.Slice((*byte)(t.At), t.Bytes()))}
		p.values[c.Name] = v
	}
	return p, nil
}

// Restore sets all caches to what they held at a snapshot of a session of this program.
// No run may be in progress.
func (s *Session) Restore(p Snapshot) error {
	for _, c := range s.Program.Caches() {
		v, ok := p.values[c.Name]
		if !ok {
			return fmt.Errorf("the snapshot has no cache %q: expected one of this model", graph.Short(c.Name))
		}
		if err := s.Set(c.Name, v); err != nil {
			return err
		}
	}
	return nil
}

// stateOf returns the tensor of a state, which has a place.
func (s *Session) stateOf(name string) *values.Tensor {
	for _, id := range s.main.Graph.Inputs {
		if s.main.Graph.Tensors[id].Name == name {
			return s.main.Tensors[id]
		}
	}
	return nil
}
