package rowmap_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/internal/nodetests"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan/verify/internal/rowmap"
)

// TestKnown: every operator along which regions can be sliced has an account of its own.
func TestKnown(t *testing.T) {
	for _, domain := range []string{"", "com.microsoft"} {
		for _, name := range ops.Names(domain) {
			op := ops.Lookup(domain, name)
			if (op.Cut != nil || op.Sum != nil) != rowmap.Known(domain, name) {
				t.Errorf("%s %s: sliced: %t, known to the verifier: %t", domain, name, op.Cut != nil || op.Sum != nil, rowmap.Known(domain, name))
			}
		}
	}
}

// compared counts the maps that agree.
type compared map[string]int

// model compares the maps of all nodes of a model.
func (c compared) model(t *testing.T, m *graph.Model, dims map[string]int64) {
	t.Helper()
	inf, err := ops.Infer(m, ops.Options{Dims: dims})
	if err != nil {
		t.Logf("%v", err)
		return
	}
	elements := func(id graph.TensorID) ([]int64, bool) { return inf.Values[id].Ints() }
	for i, n := range m.Graph.Nodes {
		x := rowmap.Of(m, n, elements)
		if x == nil || len(n.Outputs) == 0 || n.Outputs[0] < 0 {
			continue
		}
		where := fmt.Sprintf("%s of %v -> %v", m.Graph.Label(graph.NodeID(i)), x.In, x.Out)
		for axis, length := range x.Out[0].Shape {
			if want := inf.Cut(m, n, axis); want != nil {
				c[n.Op]++
				c.cut(t, fmt.Sprintf("%s along axis %d", where, axis), x.Along(axis), want, length)
			} else if got := x.Along(axis); got != nil && length > 1 {
				t.Errorf("%s: a map along axis %d, expected none", where, axis)
			}
		}
		for j, a := range x.In {
			for axis := range a.Shape {
				axes := slices.Repeat([]int{ops.Whole}, len(x.In))
				axes[j] = axis
				if want := inf.Sum(m, n, axes); want != nil {
					c[n.Op]++
					c.sum(t, fmt.Sprintf("%s over axis %d of input %d", where, axis, j), x.Sum(j, axis), want)
				} else if got := x.Sum(j, axis); got != nil {
					t.Errorf("%s: a sum over axis %d of input %d, expected none", where, axis, j)
				}
			}
		}
	}
}

func (c compared) cut(t *testing.T, where string, got *rowmap.Map, want *ops.Cut, length int64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s: no map", where)
		return
	}
	if !slices.Equal(got.Out, want.Out) {
		t.Errorf("%s: makes axes %v, expected %v", where, got.Out, want.Out)
	}
	for lo := range min(length, 12) {
		for hi := lo + 1; hi <= length; hi += max(1, length/16) {
			all := c.rows(t, where, got.In, want.In, lo, hi)
			if got.Change == nil || want.Change == nil {
				if want.Change != nil || got.Change != nil && all {
					t.Errorf("%s: changes %t, expected %t", where, got.Change != nil, want.Change != nil)
				}
				continue
			}
			if all {
				c.change(t, fmt.Sprintf("%s, rows %d to %d", where, lo, hi), got.Change(lo, hi), want.Change(lo, hi))
			}
		}
	}
}

// rows compares rows of inputs. It reports whether there is such a copy.
func (c compared) rows(t *testing.T, where string, got []rowmap.Rows, want []ops.Rows, lo, hi int64) bool {
	t.Helper()
	all := true
	for j := range want {
		if got[j].Axis != want[j].Axis {
			t.Fatalf("%s: input %d along axis %d, expected %d", where, j, got[j].Axis, want[j].Axis)
		}
		if want[j].Axis < 0 {
			continue
		}
		from, to, ok := got[j].Of(lo, hi)
		wantFrom, wantTo, wantOK := want[j].Of(lo, hi)
		if from != wantFrom || to != wantTo || ok != wantOK {
			t.Fatalf("%s: rows %d to %d need rows %d to %d (%t) of input %d, expected %d to %d (%t)", where, lo, hi, from, to, ok, j, wantFrom, wantTo, wantOK)
		}
		all = all && ok
	}
	return all
}

func (c compared) change(t *testing.T, where string, got rowmap.Change, want ops.Change) {
	t.Helper()
	if got.Op != want.Op || !reflect.DeepEqual(got.Attrs, want.Attrs) || !slices.Equal(got.Drop, want.Drop) || len(got.Inputs) != len(want.Inputs) {
		t.Fatalf("%s: the change is %+v, expected %+v", where, got, want)
	}
	for j, list := range want.Inputs {
		if !slices.Equal(got.Inputs[j], list) {
			t.Fatalf("%s: input %d becomes %v, expected %v", where, j, got.Inputs[j], list)
		}
	}
}

func (c compared) sum(t *testing.T, where string, got *rowmap.Sum, want *ops.Sum) {
	t.Helper()
	if got == nil {
		t.Errorf("%s: no sum", where)
		return
	}
	if got.By != want.By || got.Length != want.Length || got.Mean != want.Mean || got.Mean && got.Count != want.Count {
		t.Errorf("%s: %+v, expected %+v", where, got, want)
	}
	c.rows(t, where, got.In, want.In, 0, want.Length)
	change := ops.Change{}
	if want.Change != nil {
		change = want.Change(0, 1)
	}
	c.change(t, where, got.Change, change)
}

// TestNodeTests compares the maps with those of package ops on ONNX's operator tests.
// Package vm/internal/kernel runs the copies that those describe.
func TestNodeTests(t *testing.T) {
	tests, err := nodetests.Read(filepath.Dir(datafolder.Path(t, "node-tests.tar.gz")))
	if err != nil {
		t.Fatal(err)
	}
	c := compared{}
	for _, k := range tests {
		m, err := onnx.Parse(k.Name, k.Model())
		if err != nil || len(m.Graph.Nodes) != 1 {
			continue
		}
		// Lists that are inputs are known where they are constants.
		for j, id := range m.Graph.Inputs {
			x := m.Graph.Tensors[id]
			if d, err := onnx.ParseTensor(x.Name, k.Input(j)); err == nil && d.Type.Integer() && len(d.Dims) < 2 && d.Elements() <= 16 {
				x.Data = d
			}
		}
		c.model(t, m, nil)
	}
	t.Log(c)
}

// TestNetworks does the same for the nodes of networks.
func TestNetworks(t *testing.T) {
	c := compared{}
	for _, n := range models.Networks() {
		m, err := models.Build(n.Name, models.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c.model(t, m, map[string]int64{"batch": 4})
	}
	t.Log(c)
}
