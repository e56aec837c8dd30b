package schedule

import (
	"context"
	"fmt"
	"strings"

	"github.com/onnxmem/onnxmem/schedule/internal/bounds"
	"github.com/onnxmem/onnxmem/schedule/internal/exact"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
	"github.com/onnxmem/onnxmem/schedule/internal/reduce"
)

// The nodes of the package comment's example.
const nodeE, nodeF, nodeD, nodeW, nodeG, nodeU = 0, 1, 2, 3, 4, 5

// sixNodes is the example of the package comment.
func sixNodes() *Problem {
	return &Problem{
		Nodes: []Node{{Name: "E"}, {Name: "F"}, {Name: "D"}, {Name: "W"}, {Name: "G"}, {Name: "U"}},
		Tensors: []Tensor{
			{Name: "p", Bytes: 9, Producer: -1, Consumers: []int32{nodeE, nodeU}, Resident: true},
			{Name: "x", Bytes: 2, Producer: -1, Consumers: []int32{nodeE}},
			{Name: "e", Bytes: 4, Producer: nodeE, Consumers: []int32{nodeF, nodeW, nodeG}},
			{Name: "f", Bytes: 6, Producer: nodeF, Consumers: []int32{nodeD}},
			{Name: "d", Bytes: 6, Producer: nodeD, Consumers: []int32{nodeW, nodeG}},
			{Name: "w", Bytes: 5, Producer: nodeW, Consumers: []int32{nodeU}},
			{Name: "g", Bytes: 2, Producer: nodeG, Output: true},
		},
	}
}

// The tensors of sixNodes that a test changes.
const tensorF, tensorD, tensorW = 3, 4, 5

func namesOf(p *Problem, nodes []int32) string {
	var s []string
	for _, v := range nodes {
		s = append(s, p.Nodes[v].Name)
	}
	return strings.Join(s, " ")
}

// members returns the nodes of a state.
func members(in []bool) (nodes []int32) {
	for v, ran := range in {
		if ran {
			nodes = append(nodes, int32(v))
		}
	}
	return nodes
}

func stateOf(p *Problem, nodes ...int32) []bool {
	in := make([]bool, len(p.Nodes))
	for _, v := range nodes {
		in[v] = true
	}
	return in
}

// The example of the package comment, from the problem to the proof. Every figure of that
// comment stands in this example or in one of the next.
func Example_proof() {
	p := sixNodes()
	e, _ := p.Evaluate(Program(p))
	fmt.Println("program order:", namesOf(p, Program(p)), e.Loads)

	g := indexed.NewProblem(index(p))
	fmt.Println("indexed problem: sizes", g.Size, "makers", g.Maker, "transient", g.Transient)

	cut := bounds.NewCutter(meter.New(context.Background()))
	before := make([]bool, len(p.Nodes))
	for v := range int32(6) {
		cut.ProvingState(g, bounds.Certificate{Kind: bounds.Cut, Nodes: []int32{v}}, before)
		fmt.Printf("%s: NodeBound %d, CutBound %d from {%s}\n", namesOf(p, []int32{v}), NodeBound(p, v), CutBound(p, v), namesOf(p, members(before)))
	}
	fmt.Println("live before U:",
		g.Live(stateOf(p, nodeE, nodeF, nodeD, nodeW)), "or",
		g.Live(stateOf(p, nodeE, nodeF, nodeD, nodeW, nodeG)))

	fmt.Print("bound and peak:")
	r, _ := Solve(context.Background(), p, Options{Progress: func(bound, peak int64) {
		fmt.Printf(" %d/%d", bound, peak)
	}})
	fmt.Println()
	fmt.Println("order:", namesOf(p, r.Order), r.Evaluation.Loads, "bound", r.Bound, "optimal", r.Optimal)
	fmt.Println("certificate:", r.Certificates[0].Kind, namesOf(p, r.Certificates[0].Nodes), r.Certificates[0].Value)
	// Output:
	// program order: E F D W G U [6 10 16 15 17 7]
	// indexed problem: sizes [2 4 6 6 5 2] makers [-1 0 1 2 3 4] transient [4 6 6 5 2 0]
	// E: NodeBound 6, CutBound 6 from {}
	// F: NodeBound 10, CutBound 10 from {E}
	// D: NodeBound 12, CutBound 16 from {E F}
	// W: NodeBound 15, CutBound 15 from {E F D}
	// G: NodeBound 12, CutBound 12 from {E F D}
	// U: NodeBound 5, CutBound 7 from {E F D W G}
	// live before U: 15 or 7
	// bound and peak: 0/17 12/17 12/16 16/16
	// order: E F D W U G [6 10 16 15 15 12] bound 16 optimal true
	// certificate: cut D 16
}

// The sets of the package comment.
func Example_sets() {
	p := sixNodes()
	g := indexed.NewProblem(index(p))
	cut := bounds.NewCutter(meter.New(context.Background()))
	onlyW, onlyG := []int32{nodeW}, []int32{nodeG}
	fmt.Println("first: W", cut.Against(g, nodeW, onlyG, false), "G", cut.Against(g, nodeG, onlyW, false), "bound", FirstBound(p, []int32{nodeW, nodeG}))
	fmt.Println("last: W", cut.Against(g, nodeW, onlyG, true), "G", cut.Against(g, nodeG, onlyW, true), "bound", LastBound(p, []int32{nodeW, nodeG}))

	q := &Problem{
		Nodes: []Node{{Name: "K"}, {Name: "I", Workspace: 5}, {Name: "J", Workspace: 5}},
		Tensors: []Tensor{
			{Name: "i", Bytes: 6, Producer: 0, Consumers: []int32{1}},
			{Name: "j", Bytes: 6, Producer: 0, Consumers: []int32{2}},
		},
	}
	fmt.Println("cuts of K, I, J:", CutBound(q, 0), CutBound(q, 1), CutBound(q, 2), "first of I and J:", FirstBound(q, []int32{1, 2}))
	r, _ := Solve(context.Background(), q, Options{})
	fmt.Println("peak", r.Evaluation.Peak, "certificate", r.Certificates[0].Kind, namesOf(q, r.Certificates[0].Nodes), r.Certificates[0].Value)
	// Output:
	// first: W 15 G 12 bound 12
	// last: W 17 G 12 bound 12
	// cuts of K, I, J: 12 11 11 first of I and J: 17
	// peak 17 certificate first-of-set I J 17
}

// The reduced problems of the package comment.
func Example_reduced() {
	p := sixNodes()
	g := indexed.NewProblem(index(p))
	c := reduce.Contract(g, reduce.Without{}, meter.New(context.Background()))
	for i, run := range c.Run {
		fmt.Println("contracted:", namesOf(p, run), "load", c.Problem.LiveFirst(), "+", c.Problem.Transient[i])
	}

	order := []int32{nodeE, nodeF, nodeD, nodeW, nodeU, nodeG}
	ends := reduce.Separators(g, order)
	var parts reduce.Extractor
	from := 0
	for _, end := range ends {
		parts.PlaceAll(g, reduce.After)
		for _, v := range order[:from] {
			parts.Where[v] = reduce.Before
		}
		nodes := order[from:end]
		part := parts.Extract(g, nodes, g.Live(stateOf(p, order[:from]...)))
		fmt.Println("part:", namesOf(p, nodes), part.Loads(indexed.Ascending(part.Nodes), nil), "base", part.Base)
		from = end
	}

	h := reduce.Coarse(g, 4)
	fmt.Println("without tensors of 2 bytes:", namesOf(p, order), h.Loads(order, nil))
	// Output:
	// contracted: E F D W U G load 2 + 14
	// part: E [6] base 0
	// part: F [10] base 4
	// part: D [16] base 4
	// part: W U G [15 15 12] base 0
	// without tensors of 2 bytes: E F D W U G [4 10 16 15 15 10]
}

// The exact search of the package comment.
func Example_exact() {
	p := sixNodes()
	g := indexed.NewProblem(index(p))
	m := meter.New(context.Background())
	m.Budget.States, m.Budget.Runs = 100, 1000
	search := exact.New(g, Program(p), m)
	fmt.Println("unit:", g.Granularity())
	for _, limit := range []int64{15, 16} {
		verdict, order, bound := search.Decide(limit, 100)
		switch verdict {
		case exact.Infeasible:
			fmt.Println("limit", limit, "bound", bound)
		case exact.Feasible:
			fmt.Println("limit", limit, "order", namesOf(p, order))
		}
	}
	s, t := stateOf(p, nodeE, nodeF, nodeD), stateOf(p, nodeE, nodeF, nodeD, nodeG)
	fmt.Println("without and with G: live", g.Live(s), g.Live(t), "load of W", g.Live(s)+g.Transient[nodeW], g.Live(t)+g.Transient[nodeW])
	_, later, _ := bounds.NewCutter(m).Forced(g, nodeW, 16, 1000, nil)
	fmt.Println("within 16, W runs before", namesOf(p, later))
	// Output:
	// unit: 1
	// limit 15 bound 16
	// limit 16 order E F D W U G
	// without and with G: live 10 12 load of W 15 17
	// within 16, W runs before G
}

// The in-place pairs of the package comment.
func Example_inPlace() {
	p := sixNodes()
	p.Tensors[tensorD].Reuses = Reuses{tensorF}
	r, _ := Solve(context.Background(), p, Options{})
	fmt.Println("d over f:", namesOf(p, r.Order), r.Evaluation.Loads, r.Certificates[0].Kind, namesOf(p, r.Certificates[0].Nodes), r.Certificates[0].Value)

	p = sixNodes()
	p.Tensors[tensorW].Bytes = 6
	fmt.Println("w of 6 bytes:", CutBound(p, nodeW))
	p.Tensors[tensorW].Reuses = Reuses{tensorD}
	fmt.Println("w over d:", CutBound(p, nodeW))
	for _, order := range [][]int32{
		{nodeE, nodeF, nodeD, nodeW, nodeU, nodeG},
		{nodeE, nodeF, nodeD, nodeG, nodeW, nodeU},
	} {
		e, _ := p.Evaluate(order)
		fmt.Println(namesOf(p, order), e.Loads)
	}
	// Output:
	// d over f: E F D W U G [6 10 10 15 15 12] cut W 15
	// w of 6 bytes: 16
	// w over d: 12
	// E F D W U G [6 10 16 16 16 12]
	// E F D G W U [6 10 16 12 12 8]
}
