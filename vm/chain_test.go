package vm_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// elementByElement writes a net of random nodes that work element by element, between which
// stand sums over an axis and transposed copies. Unless it is float32, some work in a type, with
// Casts between.
func elementByElement(t *testing.T, draw *rand.Rand, narrow graph.DType) string {
	n := newNet()
	n.opset = 18
	rows, columns := 30+draw.Int64N(10), 70+draw.Int64N(40)
	n.input("x", graph.Dim(rows), graph.Dim(columns))
	n.weight("one", 1)
	n.weight("single")
	reals, truths := []string{"x"}, []string{}
	number := func() string {
		switch draw.IntN(8) {
		case 0:
			return "one"
		case 1:
			return "single"
		}
		return reals[max(0, len(reals)-1-draw.IntN(5))]
	}
	n.node("Greater", "holds", "one", "single") // or not: one truth value for all elements
	n.node("Not", "fails", "holds")
	n.node("Mul", "r0", "x", "x")
	reals = append(reals, "r0")
	types := map[string]graph.DType{} // those that are not float32
	cast := func(name string, to graph.DType) string {
		made := fmt.Sprintf("c%d", len(n.g.Nodes))
		n.node("Cast", made, name)
		n.g.Nodes[len(n.g.Nodes)-1].Attrs = attrs(attr("to", int(to)))
		if to != graph.Float32 {
			types[made] = to
		}
		return made
	}
	like := func(name, of string) string { // the number in the other one's type
		switch to := types[of]; {
		case to == types[name]:
			return name
		case to == graph.DType(0):
			return cast(name, graph.Float32)
		default:
			return cast(name, to)
		}
	}
	for k := range 25 {
		name := fmt.Sprintf("t%d", k)
		operand := reals[max(0, len(reals)-1-draw.IntN(4))] // not a single element
		if narrow != graph.Float32 && draw.IntN(3) == 0 {
			to := narrow
			if types[operand] == narrow {
				to = graph.Float32
			}
			operand = cast(operand, to)
			reals = append(reals, operand)
		}
		switch kind := draw.IntN(14); {
		case kind < 6:
			op := []string{"Add", "Sub", "Mul"}[draw.IntN(3)]
			if draw.IntN(2) == 0 {
				n.node(op, name, operand, like(number(), operand))
			} else {
				n.node(op, name, like(number(), operand), operand)
			}
		case kind < 8:
			n.node([]string{"Sigmoid", "Tanh", "Erf", "Sqrt", "Relu"}[draw.IntN(5)], name, operand)
		case kind < 9: // often one link
			gate := name + ".gate"
			n.node("Sigmoid", gate, operand)
			if draw.IntN(2) == 0 {
				n.node("Mul", name, operand, gate)
			} else {
				n.node("Mul", name, gate, operand)
			}
			if draw.IntN(3) == 0 {
				reals, types[gate] = append(reals, gate), types[operand]
			}
		case kind < 11:
			n.node([]string{"Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal"}[draw.IntN(5)], name, operand, like(number(), operand))
			if draw.IntN(4) == 0 {
				name += ".nan"
				n.node("IsNaN", name, operand)
			}
			truths = append(truths, name)
			continue
		case kind < 12 && len(truths) > 1:
			n.node([]string{"And", "Or"}[draw.IntN(2)], name, truths[draw.IntN(len(truths))], truths[len(truths)-1])
			truths = append(truths, name)
			continue
		case kind < 13 && len(truths) > 0:
			condition := []string{truths[len(truths)-1], "holds", "fails"}[k%3]
			n.node("Where", name, condition, operand, like(number(), operand))
		default:
			n.node("Softmax", name, operand)
		}
		reals, types[name] = append(reals, name), types[operand]
	}
	n.node("Identity", "y", like(reals[len(reals)-1], "x"))
	n.output("y", graph.Dim(rows), graph.Dim(columns))
	if len(truths) > 0 {
		n.node("Where", "z", truths[len(truths)-1], "x", "r0")
		n.output("z", graph.Dim(rows), graph.Dim(columns))
	}
	path := filepath.Join(t.TempDir(), "net.onnx")
	n.write(t, path)
	return path
}

// Nodes that work element by element run together where what they read stays until then, with
// the bits of the nodes one by one.
func TestChains(t *testing.T) {
	joined := 0
	for seed := range uint64(60) {
		narrow := []graph.DType{graph.Float32, graph.Float16, graph.BFloat16, graph.Float32}[seed%4]
		path := elementByElement(t, rand.New(rand.NewPCG(seed, 6)), narrow)
		opt := passes.Options{NoInplace: seed%3 == 2}
		p, s := session(t, path, opt, vm.Options{Poison: true})
		joined += len(s.Chained())
		found, err := p.CheckRun(t.Context(), []map[string]vm.Value{{"x": ramp(p.Inputs()[0].Type.Shape)}}, vm.Options{Poison: true})
		if err != nil || !found.Identical() || found.First != nil {
			t.Errorf("seed %d: %+v, %v", seed, found, err)
		}
	}
	if joined < 100 {
		t.Errorf("%d nodes were joined, expected 100 or more", joined)
	}
}

// gatesOfBytes writes a net of gates and sums between QuantizeLinear and DequantizeLinear:
// each is a chain, and a gate of one tensor of bytes is a table. Softmax, which is no link,
// makes some of the tensors die before the chains that read them run.
func gatesOfBytes(t *testing.T, draw *rand.Rand) string {
	n := newNet()
	n.opset = 18
	rows, columns := 30+draw.Int64N(10), 70+draw.Int64N(40)
	n.input("x", graph.Dim(rows), graph.Dim(columns))
	n.quantize("x", 0.01, 50)
	bytes := []string{"x"}
	for k := range 8 {
		name, of := fmt.Sprintf("t%d", k), bytes[max(0, len(bytes)-1-draw.IntN(3))]
		switch draw.IntN(4) {
		case 0:
			n.node("Add", name, of+".r", bytes[draw.IntN(len(bytes))]+".r")
		case 1:
			n.node("Softmax", name, of+".r")
		default:
			n.node("Sigmoid", name+".s", of+".r")
			n.quantize(name+".s", 1./256, 0)
			n.node("Mul", name, of+".r", name+".s.r")
		}
		n.quantize(name, 0.005+0.01*draw.Float32(), uint8(draw.IntN(200)))
		bytes = append(bytes, name)
	}
	n.node("Identity", "y", bytes[len(bytes)-1]+".r")
	n.output("y", graph.Dim(rows), graph.Dim(columns))
	path := filepath.Join(t.TempDir(), "net.onnx")
	n.write(t, path)
	return path
}

// Chains go through conversions to and from bytes, and look up functions of a byte, with the
// bits of the nodes one by one.
func TestChainsOfBytes(t *testing.T) {
	joined := 0
	for seed := range uint64(40) {
		path := gatesOfBytes(t, rand.New(rand.NewPCG(seed, 6)))
		p, s := session(t, path, passes.Options{NoInplace: seed%3 == 2}, vm.Options{Poison: true})
		joined += len(s.Chained())
		found, err := p.CheckRun(t.Context(), []map[string]vm.Value{{"x": ramp(p.Inputs()[0].Type.Shape)}}, vm.Options{Poison: true})
		if err != nil || !found.Identical() || found.First != nil {
			t.Errorf("seed %d: %+v, %v", seed, found, err)
		}
	}
	if joined < 800 {
		t.Errorf("%d nodes were joined, expected 800 or more", joined)
	}
}
