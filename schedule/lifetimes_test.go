package schedule_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/schedule"
)

// chainProblem is x -> a -> b -> y, where b may be written over a, with a
// workspace at the last node.
func chainProblem() *schedule.Problem {
	return &schedule.Problem{
		Nodes: []schedule.Node{{Name: "a"}, {Name: "b"}, {Name: "y", Workspace: 5}},
		Tensors: []schedule.Tensor{
			{Name: "x", Bytes: 8, Producer: -1, Consumers: []int32{0}},
			{Name: "a", Bytes: 16, Producer: 0, Consumers: []int32{1}},
			{Name: "b", Bytes: 16, Producer: 1, Consumers: []int32{2}, Reuses: schedule.Reuses{1}},
			{Name: "y", Bytes: 4, Producer: 2, Output: true},
			{Name: "w", Bytes: 99, Producer: -1, Consumers: []int32{0}, Resident: true},
			{Name: "after", Producer: 0, Consumers: []int32{2}},
		},
	}
}

// TestLifetimes: a chain of pairs is one buffer, resident tensors and those of 0
// bytes have none, and the load of the buffers is that of the order.
func TestLifetimes(t *testing.T) {
	p, order := chainProblem(), []int32{0, 1, 2}
	e, err := p.Evaluate(order)
	if err != nil {
		t.Fatal(err)
	}
	list, err := p.Lifetimes(order, e.Taken)
	if err != nil {
		t.Fatal(err)
	}
	const want = "[{[0] -1 8 0 0} {[1 2] -1 16 0 2} {[3] -1 4 2 2} {[] 2 5 2 2}]"
	if got := fmt.Sprint(list); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for step, load := range e.Loads {
		sum := int64(0)
		for _, b := range list {
			if b.First <= step && step <= b.Last {
				sum += b.Bytes
			}
		}
		if sum != load {
			t.Errorf("step %d: the buffers take %d bytes, the load is %d", step, sum, load)
		}
	}
	for _, c := range []struct {
		name, want string
		order      []int32
		taken      []schedule.Pair
	}{
		{"too short", "order: expected 3 nodes, found 2", []int32{0, 1}, nil},
		{"a node twice", "order: step 2: expected a node from 0 to 2 that has not run, found 0", []int32{0, 1, 0}, nil},
		{"no such tensor", "found 9 over 1", order, []schedule.Pair{{Over: 1, Result: 9}}},
		{"over itself", "found 1 over 1", order, []schedule.Pair{{Over: 1, Result: 1}}},
		{"written over two", "found 2 over 0", order, []schedule.Pair{{Over: 1, Result: 2}, {Over: 0, Result: 2}}},
	} {
		if _, err := p.Lifetimes(c.order, c.taken); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, expected an error with %q", c.name, err, c.want)
		}
	}
}
