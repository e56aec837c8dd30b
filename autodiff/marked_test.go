package autodiff

import (
	"testing"

	"github.com/onnxmem/onnxmem/internal/marks"
)

// TestMarks: each gradient of a normalization that package marks has a table for is a group of
// that table in the step, and no node is marked in vain. A runtime finds the groups by these
// marks alone.
func TestMarks(t *testing.T) {
	norms := map[string]*marks.Group{"BatchNormalization": marks.BatchNormGradient, "LayerNormalization": marks.LayerNormGradient}
	found := 0
	for _, net := range nets {
		for _, optimizer := range Optimizers() {
			m, _ := net.make()
			g := train(t, m, Options{Optimizer: optimizer, KeepGradients: optimizer == "adam"}).Model.Graph
			want, got := map[*marks.Group]int{}, map[*marks.Group]int{}
			marked := 0
			for _, n := range g.Nodes {
				if of := norms[n.Op]; of != nil {
					want[of]++
				}
				if _, is := n.Prop(marks.Key); is {
					marked++
				}
			}
			for _, f := range marks.Find(g) {
				got[f.Group]++
				marked -= len(f.Nodes)
				found++
			}
			for of, n := range want {
				if got[of] != n {
					t.Errorf("%s, %s: %d groups %s, expected one for each of %d nodes", net.name, optimizer, got[of], of.Name, n)
				}
			}
			if marked != 0 {
				t.Errorf("%s, %s: %d marked nodes are in no group", net.name, optimizer, marked)
			}
		}
	}
	if found == 0 {
		t.Error("no network has a normalization")
	}
}
