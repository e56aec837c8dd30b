package box

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/onnxmem/onnxmem/internal/dimrange"
	"github.com/onnxmem/onnxmem/plan"
)

// Sizes are sizes of buffers as polynomials of the lengths of dimensions.
type Sizes struct {
	list []plan.Polynomial // nil: it was wrong at a point
	of   []int             // by buffer of all graphs: its polynomial, or -1

	wrong []atomic.Bool // by polynomial: a point has other sizes
}

// FitSizes returns polynomials that give the size of each buffer of all graphs at the
// points of the grid. Buffers of equal size have one polynomial. Where the points that the
// model accepts do not determine it, there is none.
func FitSizes(box *dimrange.Box, graphs Graphs) *Sizes {
	s := &Sizes{}
	at := map[int]int{} // points of the grid
	for k, p := range graphs[0].Points {
		at[p.Index] = k
	}
	nodes, points := box.Interpolation(func(point int) bool { _, in := at[point]; return in })
	seen := map[string]int{} // by the sizes at the points
	for _, x := range graphs {
		x.first = len(s.of)
		for _, b := range x.Chosen.Buffers {
			if len(b.Tensors) == 0 || points == nil { // a workspace, or too few points
				s.of = append(s.of, -1)
				continue
			}
			values := make([]int64, len(points))
			for k, p := range points {
				values[k] = x.Points[at[p]].Bytes[b.Tensors[0]]
			}
			key := fmt.Sprint(values)
			index, known := seen[key]
			if !known {
				index = -1
				if terms, ok := dimrange.Interpolate(nodes, values); ok {
					index = len(s.list)
					s.list = append(s.list, polynomial(box.Names, terms))
				}
				seen[key] = index
			}
			s.of = append(s.of, index)
		}
	}
	s.wrong = make([]atomic.Bool, len(s.list))
	return s
}

// polynomial names the dimensions of terms.
func polynomial(names []string, terms []dimrange.Term) plan.Polynomial {
	list := plan.Polynomial{}
	for _, t := range terms {
		term := plan.Term{Factor: t.Factor}
		for k, power := range t.Powers {
			if power > 0 {
				if term.Powers == nil {
					term.Powers = map[string]int{}
				}
				term.Powers[names[k]] = power
			}
		}
		list = append(list, term)
	}
	return list
}

// Check compares the polynomials with the sizes of the buffers at a point, on any core.
func (s *Sizes) Check(dims map[string]int64, sizes []int64, round func(int64) int64) {
	values := make([]int64, len(s.list))
	for i, p := range s.list {
		v, ok := p.At(dims)
		if !ok {
			s.wrong[i].Store(true)
			v = -1
		}
		values[i] = v
	}
	for b, i := range s.of {
		if i >= 0 && values[i] >= 0 && round(values[i]) != sizes[b] {
			s.wrong[i].Store(true)
		}
	}
}

// DropWrong forgets the polynomials that were wrong at a point.
func (s *Sizes) DropWrong() {
	for i := range s.wrong {
		if s.wrong[i].Load() {
			s.drop(i)
		}
	}
}

func (s *Sizes) drop(i int) {
	for b, of := range s.of {
		if of == i {
			s.of[b] = -1
		}
	}
	s.list[i] = nil
}

// Known reports whether a buffer of a graph has a polynomial.
func (s *Sizes) Known(g *Graph, buffer int) bool { return s.of[g.first+buffer] >= 0 }

// List returns the polynomials that are left.
func (s *Sizes) List() []plan.Polynomial {
	list := []plan.Polynomial{}
	for _, p := range s.list {
		if p != nil {
			list = append(list, p)
		}
	}
	return list
}

// Of returns for each buffer of a graph the index of its polynomial in the list, or -1.
func (s *Sizes) Of(g *Graph) []int {
	index, left := make([]int, len(s.list)), 0
	for i, p := range s.list {
		if p != nil {
			index[i] = left
			left++
		}
	}
	of := slices.Clone(s.of[g.first : g.first+len(g.Chosen.Buffers)])
	for b, i := range of {
		if i >= 0 {
			of[b] = index[i]
		}
	}
	return of
}
