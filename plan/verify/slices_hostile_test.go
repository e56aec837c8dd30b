package verify_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// TestSlicesHostile changes plans in slices and the metadata and edges of their nodes at
// random places. The verifier never panics.
func TestSlicesHostile(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	rounds := 120
	if testing.Short() {
		rounds = 20
	}
	valid := 0
	for i := range slicedTexts {
		x := planSliced(t, i)
		text, err := x.p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		for range rounds {
			q, err := plan.Read(bytes.NewReader(corrupt(t, r, text)))
			if err != nil {
				continue
			}
			m := parse(t, x.file)
			if r.IntN(2) == 0 {
				q = clone(t, x.p)
				scramble(r, m)
			}
			report, err := verify.Plan(m, q, verify.Options{Source: parse(t, x.source), SkipBounds: true})
			if err == nil && report.Valid {
				valid++
			}
		}
	}
	t.Logf("%d are valid", valid)
}

// scramble changes the metadata and the inputs of some nodes.
func scramble(r *rand.Rand, m *graph.Model) {
	g := m.Graph
	numbers := []string{"0", "1", "2", "-1", "9223372036854775807", "99999999999999999999", "", "x"}
	roles := []string{"node", "rows", "base", "put", "sum", "mean", "call", ""}
	for range 1 + r.IntN(4) {
		i := r.IntN(len(g.Nodes))
		n := g.Nodes[i]
		switch r.IntN(4) {
		case 0:
			n.SetProp("onnxmem.slice", fmt.Sprintf("%s %s %s %s", pick(r, numbers), pick(r, numbers), pick(r, roles), g.Tensors[r.IntN(len(g.Tensors))].Name))
		case 1:
			n.DropProp("onnxmem.slice")
		case 2:
			if len(n.Inputs) == 0 {
				continue
			}
			t := r.IntN(len(g.Tensors))
			if maker := g.Tensors[t].Maker; maker < graph.NodeID(i) {
				n.Inputs = slices.Clone(n.Inputs)
				n.Inputs[r.IntN(len(n.Inputs))] = graph.TensorID(t)
			}
		case 3:
			if len(n.Inputs) > 0 {
				n.Inputs = n.Inputs[:r.IntN(len(n.Inputs))]
			}
		}
	}
	g.Link()
}
