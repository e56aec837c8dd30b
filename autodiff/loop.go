package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// loopExpansions replace a Loop whose iterations are counted by a Scan over their
// numbers, which has a gradient.
var loopExpansions = expansionsOf("", map[string]func(*Backward) []ID{"Loop": countedLoop})

// mostIterations limits the list of numbers.
const mostIterations = 1 << 20

// counted reports whether a Loop runs a number of iterations that is known, and more
// than none, whatever its body computes.
func (e *emitter) counted(n *graph.Node) (iterations int64, ok bool) {
	body := n.Attr("body")
	if len(n.Inputs) == 0 || body == nil || body.Graph == nil {
		return 0, false
	}
	count, known := e.ints(n.Inputs[0])
	if !known || len(count) != 1 || count[0] < 1 || count[0] > mostIterations {
		return 0, false
	}
	if len(n.Inputs) > 1 && n.Inputs[1] != graph.None {
		if v := e.values[n.Inputs[1]]; v == nil || len(v.Elems) != 1 || v.Elems[0].I == 0 {
			return 0, false
		}
	}
	g := body.Graph
	goes := g.Outputs[0]
	for goes != g.Inputs[1] {
		at := g.Tensors[goes]
		if d := at.Data; d != nil {
			return count[0], d.Type == graph.Bool && len(d.Raw) == 1 && d.Raw[0] != 0
		}
		if at.Maker < 0 {
			return 0, false
		}
		maker := g.Nodes[at.Maker]
		if v := maker.Attr("value"); maker.Op == "Constant" && v != nil && v.Tensor != nil {
			return count[0], len(v.Tensor.Raw) == 1 && v.Tensor.Raw[0] != 0
		}
		if maker.Op != "Identity" || maker.Domain != "" {
			return 0, false
		}
		goes = maker.Inputs[0]
	}
	return count[0], true
}

// countedLoop emits the Scan. The body's condition is a constant.
func countedLoop(c *Backward) []ID {
	iterations, _ := c.counted(c.Node)
	g := c.Node.Attr("body").Graph.Clone()
	g.Link()
	number, condition := g.Inputs[0], g.Tensors[g.Inputs[1]]
	condition.Data = &graph.Data{Name: condition.Name, Type: graph.Bool, Dims: []int64{}, Raw: []byte{1}, Bytes: 1}
	condition.Declared, condition.Input = nil, false
	states := slices.Clone(g.Inputs[2:])
	g.Inputs, g.Outputs, g.Span = append(slices.Clone(states), number), g.Outputs[1:], graph.Span{}
	g.Link()
	numbers := make([]int64, iterations)
	for i := range numbers {
		numbers[i] = int64(i)
	}
	var types []graph.Type
	for k, t := range g.Outputs {
		typ := g.Tensors[t].Type
		if k >= len(states) {
			typ = stackOf(typ, iterations)
		}
		types = append(types, typ)
	}
	in := append(slices.Clone(c.Node.Inputs[2:]), c.list(numbers...))
	return c.emitBody("Scan", attrs{"num_scan_inputs": 1}.list(), map[string]*graph.Graph{"body": g}, types, in...)
}
