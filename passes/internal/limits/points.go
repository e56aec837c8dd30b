package limits

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
)

// Beside ranges of dimensions, regions are chosen at the corner, where all lengths are largest, and
// the graph in which they run is that of all points: no axis of an open length is cut, and no node
// states one. A search compares the maps of nodes at a few other points; the graph that is chosen
// is inferred at all points of the grid, and later, as any graph, at all points.

// comparedPoints is the largest number of points at which the maps of nodes are compared with
// those of the corner.
const comparedPoints = 6

// otherPoints lists points with other lengths than the corner: of all dimensions, then of each.
func (s *Task) otherPoints() (list []int) {
	if s.Ranged == nil {
		return nil
	}
	b := s.Ranged.Box
	grid := b.Grid()
	apart := func(point int) (n int) { // dimensions in which it differs from the corner
		at, corner := b.At(point), b.At(b.Corner())
		for name, length := range at {
			if length != corner[name] {
				n++
			}
		}
		return n
	}
	for n := len(b.Names); n > 0; n-- {
		for _, p := range grid {
			if len(list) < comparedPoints && apart(p) == n && (n == len(b.Names) || n == 1) {
				list = append(list, p)
			}
		}
	}
	return list
}

// elsewhere returns a model, made of the present one, at other points than the corner.
func (s *Task) elsewhere(m *graph.Model) (list []slicing.Elsewhere) {
	for _, p := range s.otherPoints() {
		c := *m
		c.Graph = m.Graph.Clone()
		bind := s.Bind.At(s.Ranged.Dims(p))
		if found, err := bind.Infer(&c); err == nil { // else the model refuses the point
			list = append(list, slicing.Elsewhere{Model: &c, Inference: found})
		}
	}
	return list
}

// sameEverywhere checks that a model in which regions run in slices has, at every point of the grid
// at which the present model has shapes, the types of that one.
func (s *Task) sameEverywhere(sliced *graph.Model) error {
	if s.Ranged == nil {
		return nil
	}
	for _, p := range s.Ranged.Box.Grid() {
		bind := s.Bind.At(s.Ranged.Dims(p))
		plain, made := *s.Model, *sliced
		plain.Graph, made.Graph = s.Model.Graph.Clone(), sliced.Graph.Clone()
		if _, err := bind.Infer(&plain); err != nil {
			continue
		}
		at := graph.AtLengths(s.Ranged.Box.At(p))
		if _, err := bind.Infer(&made); err != nil {
			return graph.Errorf("slices: at %s: %w", at, err)
		}
		types := map[string]graph.Type{}
		for _, t := range plain.Graph.Tensors {
			types[t.Name] = t.Type
		}
		for _, t := range made.Graph.Tensors {
			if want, known := types[t.Name]; known && want.String() != t.Type.String() {
				e := graph.Errorf("slices: at %s: is %v in slices: expected %v", at, t.Type, want)
				e.Tensor = t.Name
				return e
			}
		}
	}
	return nil
}
