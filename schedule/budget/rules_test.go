package budget

import (
	"context"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/schedule"
)

// bottle returns a chain whose first result blocks the memory that nodes 2 and 3 need:
// node 0 makes it, nodes 1 and 4 read it.
func bottle() *schedule.Problem {
	return &schedule.Problem{
		Nodes: []schedule.Node{{Cost: 5}, {Cost: 10}, {Cost: 10}, {Cost: 10}, {Cost: 10}},
		Tensors: []schedule.Tensor{
			{Name: "x", Bytes: 1, Producer: -1, Consumers: []int32{0}},
			{Name: "a", Bytes: 10, Producer: 0, Consumers: []int32{1, 4}},
			{Name: "b", Bytes: 1, Producer: 1, Consumers: []int32{2}},
			{Name: "c", Bytes: 12, Producer: 2, Consumers: []int32{3}},
			{Name: "d", Bytes: 1, Producer: 3, Consumers: []int32{4}},
			{Name: "e", Bytes: 1, Producer: 4, Output: true},
		},
	}
}

func TestWhatMayRunAgain(t *testing.T) {
	control := func(p *schedule.Problem, from, to int32) {
		p.Tensors = append(p.Tensors, schedule.Tensor{Producer: from, Consumers: []int32{to}})
	}
	for _, c := range []struct {
		name   string
		change func(p *schedule.Problem)
		found  Verdict
		extra  int64
	}{
		{name: "the first node runs again", change: func(*schedule.Problem) {}, found: Found, extra: 5},
		{name: "a random one does not", change: func(p *schedule.Problem) { p.Nodes[0].Once = true }, found: Impossible},
		{name: "its input is overwritten later", change: func(p *schedule.Problem) {
			p.Tensors[0].Consumers = []int32{0, 3}
			p.Nodes[3].Writes = []int32{0}
			control(p, 0, 3)
		}, found: NoneFound},
		{name: "its parameter is updated later", change: func(p *schedule.Problem) {
			p.Tensors = append(p.Tensors, schedule.Tensor{Bytes: 100, Producer: -1, Consumers: []int32{0, 3}, Resident: true})
			p.Nodes[3].Writes = []int32{6}
			control(p, 0, 3)
		}, found: NoneFound},
		{name: "the same, told by a control tensor alone", change: func(p *schedule.Problem) {
			p.Tensors = append(p.Tensors, schedule.Tensor{Bytes: 100, Producer: -1, Consumers: []int32{0, 3}, Resident: true})
			control(p, 0, 3)
		}, found: NoneFound},
		{name: "the same, by a node that makes nothing", change: func(p *schedule.Problem) {
			p.Nodes = append(p.Nodes, schedule.Node{Cost: 1})
			p.Tensors = append(p.Tensors, schedule.Tensor{Bytes: 100, Producer: -1, Consumers: []int32{1, 5}, Resident: true})
			control(p, 1, 5)
		}, found: Found, extra: 5},
		{name: "the second node overwrites it: both run again", change: func(p *schedule.Problem) {
			p.Nodes[1].Writes = []int32{1}
			control(p, 1, 4)
		}, found: Found, extra: 15},
		{name: "its maker overwrites another", change: func(p *schedule.Problem) { p.Nodes[0].Writes = []int32{0} }, found: NoneFound},
	} {
		p := bottle()
		c.change(p)
		order := []int32{0, 1, 2, 3, 4, 5}[:len(p.Nodes)]
		for _, effort := range []schedule.Effort{schedule.EffortFast, schedule.EffortDefault} {
			x, err := Solve(context.Background(), p, [][]int32{order}, 16, Options{Effort: effort})
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if x.Feasible != c.found || x.ExtraCost != c.extra {
				t.Errorf("%s: %v with extra cost %d, expected %v with %d", c.name, x.Feasible, x.ExtraCost, c.found, c.extra)
			}
			checkPlan(t, p, x)
		}
	}
}

func TestObstacleNamesTheNode(t *testing.T) {
	x, err := Solve(context.Background(), bottle(), [][]int32{{0, 1, 2, 3, 4}}, 12, Options{NoBound: true})
	if err != nil {
		t.Fatal(err)
	}
	if x.Feasible != Impossible || x.Obstacle == nil || x.Obstacle.Node != 2 || x.Obstacle.Bytes != 13 || x.LeastBytes != 13 {
		t.Errorf("%v, %+v, least %d: expected node 2 with 13 bytes", x.Feasible, x.Obstacle, x.LeastBytes)
	}
}

// What lives at the last step, or at the first, is an obstacle of every plan, with and
// without a bound by cuts.
func TestObstacleIsAllOutputsOrInputs(t *testing.T) {
	fan := func(outputs bool) *schedule.Problem { // one tensor and three that are made of it, or the reverse
		p := &schedule.Problem{}
		one := schedule.Tensor{Bytes: 1, Producer: -1}
		for v := range int32(3) {
			p.Nodes = append(p.Nodes, schedule.Node{Cost: 5})
			many := schedule.Tensor{Bytes: 10, Producer: v, Output: true}
			if !outputs {
				many = schedule.Tensor{Bytes: 10, Producer: -1, Consumers: []int32{v}}
			}
			p.Tensors = append(p.Tensors, many)
			one.Consumers = append(one.Consumers, v)
		}
		if !outputs {
			one.Producer, one.Consumers = 2, nil
			p.Tensors = append(p.Tensors, schedule.Tensor{Bytes: 0, Producer: 0, Consumers: []int32{2}}, schedule.Tensor{Bytes: 0, Producer: 1, Consumers: []int32{2}})
		}
		p.Tensors = append(p.Tensors, one)
		return p
	}
	for _, c := range []struct {
		outputs    bool
		node       int32
		bytes      int64
		impossible int64 // the largest limit that is
	}{
		{outputs: true, node: AtEnd, bytes: 31, impossible: 30},
		{outputs: false, node: AtStart, bytes: 30, impossible: 29},
	} {
		for _, none := range []bool{false, true} {
			x, err := Solve(context.Background(), fan(c.outputs), [][]int32{{0, 1, 2}}, c.impossible, Options{NoBound: none})
			if err != nil {
				t.Fatal(err)
			}
			if x.Feasible != Impossible || x.Obstacle == nil || x.Obstacle.Bytes != c.bytes || x.LeastBytes != c.bytes || none && (x.Obstacle.Node != c.node || len(x.Obstacle.Tensors) != 3) {
				t.Errorf("outputs %t, NoBound %t: %v, %+v: expected impossible at %d with three tensors of %d bytes", c.outputs, none, x.Feasible, x.Obstacle, c.node, c.bytes)
			}
			if x, err := Solve(context.Background(), fan(c.outputs), [][]int32{{0, 1, 2}}, c.impossible+1, Options{NoBound: none}); err != nil || x.Feasible != Found {
				t.Errorf("outputs %t, NoBound %t: one byte more: %v, %v: expected a plan", c.outputs, none, x.Feasible, err)
			}
		}
	}
}

// Nothing but final nodes runs again once one of them has run, so the first of them holds
// what they read: here three gradients of 10 bytes, which could else be made one by one.
func TestFinalNodes(t *testing.T) {
	p := &schedule.Problem{Tensors: []schedule.Tensor{{Bytes: 1, Producer: -1, Consumers: []int32{0, 1, 2}}}}
	for v := range int32(6) {
		p.Nodes = append(p.Nodes, schedule.Node{Cost: 5})
		if v < 3 {
			p.Tensors = append(p.Tensors, schedule.Tensor{Bytes: 10, Producer: v, Consumers: []int32{v + 3}})
		} else {
			p.Tensors = append(p.Tensors, schedule.Tensor{Bytes: 1, Producer: v, Output: true})
		}
	}
	orders := [][]int32{{0, 1, 2, 3, 4, 5}}
	solve := func(limit int64, final []bool) *Plan {
		x, err := Solve(t.Context(), p, orders, limit, Options{KeepOrders: true, Final: final})
		if err != nil {
			t.Fatal(err)
		}
		checkPlan(t, p, x)
		return x
	}
	final := []bool{3: true, 4: true, 5: true}
	if x := solve(30, nil); x.Feasible != Found || x.ExtraCost == 0 {
		t.Errorf("without final nodes: %v at %d, expected a plan that runs a node again", x.Feasible, x.ExtraCost)
	}
	if x := solve(30, final); x.Feasible != Impossible || x.Obstacle.Node != AtFinal || x.Obstacle.Bytes != 31 || len(x.Obstacle.Tensors) != 3 {
		t.Errorf("%v, %+v: expected impossible, for three gradients and an update", x.Feasible, x.Obstacle)
	}
	if x := solve(31, final); x.Feasible != Found {
		t.Errorf("31 bytes: %v, expected a plan", x.Feasible)
	}
	s, err := NewSwapper(p, orders, SwapOptions{Link: 1e9, KeepOrders: true, Final: final})
	if err != nil {
		t.Fatal(err)
	}
	if x := s.Solve(t.Context(), 30); x.Feasible == Impossible {
		t.Error("with a link: impossible, expected none found: gradients may be swapped")
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(p *schedule.Problem)
		orders [][]int32
	}{
		{"expected at least one", func(*schedule.Problem) {}, nil},
		{"order: step 0", func(*schedule.Problem) {}, [][]int32{{4, 3, 2, 1, 0}}},
		{"expected it among those that it reads", func(p *schedule.Problem) { p.Nodes[3].Writes = []int32{0} }, [][]int32{{0, 1, 2, 3, 4}}},
		{"all costs together", func(p *schedule.Problem) { p.Nodes[0].Cost = 1 << 62 }, [][]int32{{0, 1, 2, 3, 4}}},
	} {
		p := bottle()
		c.change(p)
		if _, err := New(p, c.orders, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// Without costs, costs are estimated from the bytes moved.
func TestEstimatedCosts(t *testing.T) {
	p := bottle()
	for v := range p.Nodes {
		p.Nodes[v].Cost = 0
	}
	p.Tensors[1].Bytes = 7_000_000
	costs, err := Costs(p)
	if err != nil || costs[0] != 10_000 || costs[1] != 10_000 || costs[2] != leastCost {
		t.Errorf("%v, %v", costs, err)
	}
}
