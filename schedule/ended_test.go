package schedule_test

import (
	"context"
	"testing"

	"github.com/onnxmem/onnxmem/schedule"
)

// TestEndedProves: what a search proves that was ended at once can be proven again, also where
// the first step or the last one is the bound, and no node by itself.
func TestEndedProves(t *testing.T) {
	for name, p := range map[string]*schedule.Problem{
		"inputs": {
			Nodes: make([]schedule.Node, 2),
			Tensors: []schedule.Tensor{
				{Bytes: 100, Producer: -1, Consumers: []int32{0}},
				{Bytes: 100, Producer: -1, Consumers: []int32{1}},
				{Bytes: 1, Producer: 0, Output: true},
				{Bytes: 1, Producer: 1, Output: true},
			},
		},
		"outputs": {
			Nodes: make([]schedule.Node, 2),
			Tensors: []schedule.Tensor{
				{Bytes: 1, Producer: -1, Consumers: []int32{0}},
				{Bytes: 1, Producer: -1, Consumers: []int32{1}},
				{Bytes: 100, Producer: 0, Output: true},
				{Bytes: 100, Producer: 1, Output: true},
			},
		},
	} {
		for i := range p.Nodes {
			p.Nodes[i].Name = string(rune('a' + i))
		}
		ctx, end := context.WithCancel(t.Context())
		end()
		r, err := schedule.Solve(ctx, p, schedule.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Certificates) != 1 || r.Bound <= 200 {
			t.Fatalf("%s: bound %d, certificates %+v", name, r.Bound, r.Certificates)
		}
		prove := map[string]func(*schedule.Problem, []int32) int64{schedule.KindFirst: schedule.FirstBound, schedule.KindLast: schedule.LastBound}[r.Certificates[0].Kind]
		if prove == nil || prove(p, r.Certificates[0].Nodes) < r.Bound {
			t.Errorf("%s: %+v does not prove %d", name, r.Certificates[0], r.Bound)
		}
	}
}
