package program

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// openAxis is an axis of an input whose length the file leaves open.
type openAxis struct {
	input string
	rank  int
	axis  int
	dim   string // of the plan
}

// openAxesOf lists the open axes of the inputs for which a plan has a dimension: by the
// place of the axis, such as x[0], or by its name.
func openAxesOf(g *graph.Graph, p *plan.Plan) (list []openAxis) {
	for _, id := range g.Inputs {
		t := g.Tensors[id]
		if t.Declared == nil || t.Declared.Type.Kind != graph.KindTensor {
			continue
		}
		shape := t.Declared.Type.Shape
		for axis, n := range shape {
			if n.Exact() {
				continue
			}
			for _, name := range []string{fmt.Sprintf("%s[%d]", t.Name, axis), t.Declared.Symbols[axis]} {
				if _, has := p.Dims[name]; has {
					list = append(list, openAxis{t.Name, len(shape), axis, name})
					break
				}
			}
		}
	}
	return list
}

// LengthsOf returns the lengths of dimensions that the shapes of inputs have, by
// dimension: a point for At, if every dimension with several lengths is an axis of one of
// the inputs. It fails if two inputs disagree, or if one has another rank than the model
// says. It is empty for a plan without ranges.
func (p *Program) LengthsOf(inputs map[string]values.Value) (map[string]int64, error) {
	dims := map[string]int64{}
	if p.ranged == nil {
		return dims, nil
	}
	first := map[string]openAxis{}
	for _, a := range p.ranged.axes {
		v, given := inputs[a.input]
		if !given {
			continue
		}
		if v.Kind != graph.KindTensor && v.Kind != graph.KindUnknown || len(v.Shape) != a.rank {
			return nil, p.badInput(a.input, "is %v, expected %d axes", v, a.rank)
		}
		n := int64(v.Shape[a.axis])
		if f, known := first[a.dim]; known && dims[a.dim] != n {
			return nil, p.badInput(a.input, "dimension %q (axis %d) is %d: expected %d, as along axis %d of %q",
				graph.Short(a.dim), a.axis, n, dims[a.dim], f.axis, graph.Short(f.input))
		} else if !known {
			first[a.dim], dims[a.dim] = a, n
		}
	}
	return dims, nil
}

// PointFor returns the point of the inputs of a run.
func (p *Program) PointFor(inputs map[string]values.Value) (map[string]int64, error) {
	dims, err := p.LengthsOf(inputs)
	if err != nil {
		return nil, err
	}
	for _, a := range p.ranged.axes {
		if _, known := dims[a.dim]; !known && slices.Contains(p.ranged.names, a.dim) {
			return nil, p.badInput(a.input, "no value given: expected one, whose axis %d is dimension %q", a.axis, graph.Short(a.dim))
		}
	}
	return dims, nil
}

// AtRuns returns the program at the point of the inputs of several runs, which must be
// one; for a plan without ranges, the program itself.
func (p *Program) AtRuns(runs []map[string]values.Value) (*Program, error) {
	if p.ranged == nil {
		return p, nil
	}
	at := (*Program)(nil)
	for i, inputs := range runs {
		dims, err := p.PointFor(inputs)
		if err != nil {
			return nil, err
		}
		switch {
		case at == nil:
			if at, err = p.At(dims); err != nil {
				return nil, err
			}
		case !at.IsAt(dims):
			return nil, Refuse(p.Model, "run %d has other lengths than run 1: expected %s", i+1, at.Where())
		}
	}
	if at == nil {
		return nil, Refuse(p.Model, "ranges: expected inputs, whose shapes say for which lengths to run")
	}
	return at, nil
}

// CheckLengths fails if an input has another length along an axis than follows from the
// other dimensions at a point, such as total = past + 1. at is the program there.
func (p *Program) CheckLengths(at *Program, inputs map[string]values.Value) error {
	for _, a := range p.ranged.axes {
		v, given := inputs[a.input]
		if !given {
			continue
		}
		if n, want := int64(v.Shape[a.axis]), at.dims[a.dim]; n != want {
			return p.badInput(a.input, "dimension %q (axis %d) is %d: expected %d, which follows from %s", graph.Short(a.dim), a.axis, n, want, at.Where())
		}
	}
	return nil
}

// badInput makes an error about a graph input.
func (p *Program) badInput(name, format string, args ...any) error {
	e := graph.Errorf(format, args...)
	e.Tensor = name
	e.File = FileOf(p.Model)
	return e
}
