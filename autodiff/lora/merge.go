package lora

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
	"github.com/onnxmem/onnxmem/internal/mapped"
)

// Merge returns a copy of a model with W + s B A in the place of each adapted weight W, and the
// elements of the changed initializers, in the order of their names. They are computed when they are written, from the
// model's mapped files: in float32, and then rounded once to the type of the weight. Everything
// else is shared with m.
func Merge(m *graph.Model, s *Saved) (*graph.Model, []*graph.Data, error) {
	inlined, err := graph.Inline(m)
	if err != nil {
		return nil, nil, err
	}
	flat := inlined.Graph.Clone()
	constant.Hoist(flat)
	flat.Link()
	sites := findSites(flat)
	c := *m
	c.Graph = m.Graph.Clone()
	w := &merger{m: &c, files: m, changed: map[string]*graph.Data{}}
	for _, name := range s.Modules() {
		of := slices.DeleteFunc(slices.Clone(sites), func(x *site) bool { return x.module != name || x.kind != s.modules[name].kind })
		if len(of) == 0 {
			return nil, nil, graph.Errorf("adapter of module %q: the model has no %s of that name: expected one of %s", graph.Short(name), s.modules[name].kind, expected(sites, name, s.modules[name].kind))
		}
		if err := w.merge(name, s.modules[name], of, flat, sites); err != nil {
			return nil, nil, err
		}
	}
	for name, x := range s.whole {
		if err := w.replace(name, x); err != nil {
			return nil, nil, err
		}
	}
	c.Graph.Link()
	var list []*graph.Data
	for _, d := range w.changed {
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b *graph.Data) int { return strings.Compare(a.Name, b.Name) })
	return &c, list, nil
}

// expected lists the modules of a kind that end as a name does, or some of all.
func expected(sites []*site, name string, kind Kind) string {
	last := name[strings.LastIndexByte(name, '.')+1:]
	of := slices.DeleteFunc(slices.Clone(sites), func(x *site) bool { return x.kind != kind })
	near := slices.DeleteFunc(slices.Clone(of), func(x *site) bool { return !strings.HasSuffix(x.module, last) })
	if len(near) > 0 {
		of = near
	}
	return modules(of)
}

// merger changes initializers of a copy of a model.
type merger struct {
	m       *graph.Model
	files   *graph.Model
	changed map[string]*graph.Data
}

// merge adds an adapter to the weight of its sites, which is one.
func (w *merger) merge(name string, a *saved, of []*site, flat *graph.Graph, all []*site) error {
	x := of[0]
	weight := flat.Tensors[x.weight].Name
	at := func(format string, args ...any) error {
		return graph.Errorf("adapter of module %q: %w", graph.Short(name), fmt.Errorf(format, args...))
	}
	if x.factor == 0 {
		return at("its weight %q is quantized: expected the model from which it was quantized, in floating point", graph.Short(weight))
	}
	for _, y := range all {
		if y.weight == x.weight && (y.key != x.key || y.flipped != x.flipped || y.factor != x.factor) {
			return at("%q is also the weight of module %q, which has no such adapter: expected a model in which the two are not one initializer", graph.Short(weight), graph.Short(y.module))
		}
	}
	shape := append([]int64{x.out, x.in}, x.kernel...)
	if x.kind == Embedding {
		shape[0], shape[1] = x.out, x.in // A is [r, rows], B is [width, r]
	}
	if found := append([]int64{a.parts[1].Shape[0]}, a.parts[0].Shape[1:]...); !slices.Equal(found, shape) {
		return at("A has shape %v and B %v: expected them to make %v, as the weight %q", a.parts[0].Shape, a.parts[1].Shape, shape, graph.Short(weight))
	}
	return w.change(weight, func(old *graph.Data) func(io.Writer) error {
		// W is [rows, columns], and the sum over k of left[row, k] right[k, column] is added.
		left, right := reals(a.parts[1]), reals(a.parts[0])
		r := int(a.rank())
		if x.flipped {
			left, right = turn(right, r), turn(left, len(left)/r)
		}
		s := float32(a.scale * x.factor)
		for i := range left {
			left[i] *= s
		}
		return func(out io.Writer) error { return w.sum(out, old, left, right, r) }
	})
}

// replace puts a parameter that was saved whole into its place.
func (w *merger) replace(name string, x *constant.Tensor) error {
	return w.change(name, func(old *graph.Data) func(io.Writer) error {
		if !slices.Equal(old.Dims, x.Shape) {
			return nil
		}
		return func(out io.Writer) error {
			raw := make([]byte, 0, old.Bytes)
			for i := range int(old.Elements()) {
				raw, _ = constant.AppendReal(raw, old.Type, x.Real(i))
			}
			_, err := out.Write(raw)
			return err
		}
	})
}

// change gives an initializer, or a Constant node's tensor, other elements.
func (w *merger) change(name string, elements func(old *graph.Data) func(io.Writer) error) error {
	g := w.m.Graph
	k := slices.IndexFunc(g.Tensors, func(t *graph.Tensor) bool { return t.Name == name && !t.Capture })
	if k < 0 {
		return graph.Errorf("adapters: %q is in a local function, or not in the model: expected an initializer of the main graph", graph.Short(name))
	}
	t := *g.Tensors[k]
	if t.Data == nil && t.Maker >= 0 {
		if d := constant.Weight(g.Nodes[t.Maker]); d != nil {
			n := g.Nodes[t.Maker]
			own := *d
			own.Name, t.Data = name, &own
			g.Nodes = slices.DeleteFunc(slices.Clone(g.Nodes), func(other *graph.Node) bool { return other == n })
			g.Tensors[k] = &t
			g.Link()
			t = *g.Tensors[k]
		}
	}
	if t.Data == nil || !float(t.Data.Type) || t.Data.Sparse != nil {
		return graph.Errorf("adapters: %q: expected a dense initializer of a floating-point type", graph.Short(name))
	}
	old := t.Data
	d := &graph.Data{Name: old.Name, Type: old.Type, Dims: old.Dims, Bytes: old.Bytes}
	if d.Generate = elements(old); d.Generate == nil {
		return graph.Errorf("adapters: %q has shape %v: expected that of the saved parameter", graph.Short(name), old.Dims)
	}
	t.Data, g.Tensors[k] = d, &t
	w.changed[name] = d
	return nil
}

// rowsAtOnce is how many rows are computed before they are written.
const rowsAtOnce = 256

// sum writes old + left right.
func (w *merger) sum(out io.Writer, old *graph.Data, left, right []float32, r int) (err error) {
	defer mapped.Recover(&err, mapped.Watch())
	files := constant.NewFiles(w.files)
	defer files.Close()
	x, err := files.Read(old)
	if err != nil {
		return err
	}
	rows, columns := len(left)/r, len(right)/r
	width := int(old.Type.Bits() / 8)
	buffer := make([]byte, min(rows, rowsAtOnce)*columns*width)
	for from := 0; from < rows; from += rowsAtOnce {
		n := min(rowsAtOnce, rows-from)
		block := buffer[:n*columns*width]
		if err := inParallel(n, func(i int) {
			row := block[i*columns*width : i*columns*width : (i+1)*columns*width]
			delta := make([]float32, columns)
			for k := range r {
				f := left[(from+i)*r+k]
				for j, v := range right[k*columns : (k+1)*columns] {
					delta[j] += f * v
				}
			}
			for j, v := range delta {
				row, _ = constant.AppendReal(row, old.Type, x.Real((from+i)*columns+j)+float64(v))
			}
		}); err != nil {
			return err
		}
		if _, err := out.Write(block); err != nil {
			return err
		}
	}
	return nil
}

// inParallel calls f for 0 to n-1 on all cores. A fault in a mapped file is an error.
func inParallel(n int, f func(i int)) error {
	var wait sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), n)
	errs := make([]error, workers)
	for k := range workers {
		wait.Go(func() {
			defer mapped.Recover(&errs[k], mapped.Watch())
			for i := k; i < n; i += workers {
				f(i)
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// reals are the elements of a tensor.
func reals(t *constant.Tensor) []float32 {
	list := make([]float32, len(t.Raw)/int(t.Type.Bits()/8))
	for i := range list {
		list[i] = float32(t.Real(i))
	}
	return list
}

// turn transposes a matrix of that many rows.
func turn(x []float32, rows int) []float32 {
	columns := len(x) / max(rows, 1)
	out := make([]float32, len(x))
	for i := range rows {
		for j := range columns {
			out[j*rows+i] = x[i*columns+j]
		}
	}
	return out
}
