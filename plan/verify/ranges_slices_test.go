package verify_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// TestSlicesAtPoints: slices that are right for the largest lengths alone are found wrong at others.
func TestSlicesAtPoints(t *testing.T) {
	i := 0
	for slicedTexts[i].name != "open lengths" {
		i++
	}
	x := planSliced(t, i)
	m := parse(t, x.file)
	check := func() *verify.Report {
		t.Helper()
		r, err := verify.Plan(m, x.p, verify.Options{Source: parse(t, x.source)})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := check(); !r.Valid {
		t.Fatalf("expected a valid plan, found\n%s", r)
	}
	m = parse(t, x.file)
	room := m.Graph.Nodes[slices.IndexFunc(m.Graph.Nodes, func(n *graph.Node) bool { return n.Op == "ConstantOfShape" })]
	largest := m.Graph.NewTensor("largest")
	d := &graph.Data{Name: "largest", Type: graph.Int64, Dims: []int64{3}, Bytes: 24}
	for _, n := range []uint64{32, 32, 2} {
		d.Raw = binary.LittleEndian.AppendUint64(d.Raw, n)
	}
	m.Graph.Tensors[largest].Data = d
	room.Inputs = []graph.TensorID{largest}
	m.Graph.Link()
	const want = "ranges: at batch=1: the source has shapes, and the graph with slices has none"
	if r := check(); r.Valid || !slices.ContainsFunc(r.Violations, func(v verify.Violation) bool { return v.Code == verify.CodeSlices && v.Message == want }) {
		t.Errorf("expected %q, found\n%s", want, r)
	}
}
