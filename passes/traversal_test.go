package passes_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
)

// defaultOrder asks for a plan of ONNX Runtime's default order.
func defaultOrder(o passes.Options) passes.Options {
	o.Runtime, o.RuntimeOrder = "onnxruntime", true
	return o
}

// TestDefaultOrderIsAsItIs: nothing runs again in the order of a runtime. A limit says what it
// must keep, extra time changes nothing, and the frontier has one point.
func TestDefaultOrderIsAsItIs(t *testing.T) {
	b := noise(t)
	_, plain := planned(t, b, defaultOrder(passes.Options{}))
	peak := plain.Summary.PeakBytes
	for _, o := range []passes.Options{
		{Limit: &passes.Limit{Bytes: peak}}, {Limit: &passes.Limit{Bytes: peak, Arena: true}}, {Limit: &passes.Limit{Percent: 100}}, {ExtraPercent: 50}, {Frontier: true},
	} {
		_, p := planned(t, b, defaultOrder(o))
		if l := p.Summary.Limited; p.Summary.PeakBytes != peak || len(p.Steps) != len(plain.Steps) || (l == nil) != o.Frontier || l != nil && l.ExtraCostPercent != 0 {
			t.Errorf("%+v: a peak of %d in %d steps, %+v: expected %d in %d", o, p.Summary.PeakBytes, len(p.Steps), l, peak, len(plain.Steps))
		}
		if o.Frontier && (len(p.Frontier) != 1 || p.Frontier[0].LimitBytes != peak || *p.Frontier[0].ExtraCostPercent != 0) {
			t.Errorf("frontier %+v: expected the peak, %d, at no cost", p.Frontier, peak)
		}
	}
	m, err := onnx.Parse("in.onnx", b)
	if err != nil {
		t.Fatal(err)
	}
	_, err = passes.Optimize(t.Context(), m, defaultOrder(passes.Options{Limit: &passes.Limit{Bytes: peak - 64}}))
	var none *passes.LimitError
	if !errors.As(err, &none) || none.Impossible || none.LowestBytes != peak {
		t.Errorf("a limit below the peak: %v, expected an error with the lowest limit, %d", err, peak)
	}
}

// TestDefaultOrderKeepsRandomOrder: where a listing lets the default order keep the order of
// random nodes, the plan has one; the error for another graph names two nodes.
func TestDefaultOrderKeepsRandomOrder(t *testing.T) {
	_, kept := planned(t, noise(t), defaultOrder(passes.Options{KeepRandomOrder: true}))
	if got := strings.Join(draws(kept), " "); got != "n0 n1" || !kept.KeepsRandomOrder {
		t.Errorf("draws in the order %s, expected n0 n1", got)
	}

	// The default order runs what one sum reads without a node between.
	g := graph.NewBuilder("crossed", 17)
	var drawn [4]graph.TensorID
	for i := range drawn {
		shape := []*graph.Attr{{Name: "shape", Type: graph.AttrInts, Ints: []int64{8}}}
		drawn[i] = g.Add(&graph.Node{Name: fmt.Sprint("draw", i), Op: "RandomNormal", Attrs: shape}, fmt.Sprint("r", i))[0]
	}
	g.Output(g.Node("Add", "sum", g.Node("Add", "outer", drawn[0], drawn[3]), g.Node("Add", "inner", drawn[1], drawn[2])))
	m, err := g.Model()
	if err != nil {
		t.Fatal(err)
	}
	b := file(t, m)
	if m, err = onnx.Parse("in.onnx", b); err != nil {
		t.Fatal(err)
	}
	_, err = passes.Optimize(t.Context(), m, defaultOrder(passes.Options{KeepRandomOrder: true}))
	if err == nil || !strings.Contains(err.Error(), `"draw`) || strings.Count(err.Error(), "draw") < 3 {
		t.Errorf("%v: expected an error that names two of the nodes", err)
	}
	planned(t, b, defaultOrder(passes.Options{}))
}
