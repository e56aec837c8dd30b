package precision

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// newest is the opset up to which an older one is raised: from it on, ai.onnx permits both
// 16-bit types wherever it permits float32.
const newest = 22

// Opset is the least opset of ai.onnx, from that of the model on, in which no node of the main
// graph must stay in float32 that may compute in 16 bits in a later one.
func Opset(m *graph.Model, elem graph.DType) int64 {
	from := m.Opset("")
	least := held(m.Graph, elem, newest, from)
	for v := from; v < newest; v++ {
		if held(m.Graph, elem, v, from) == least {
			return v
		}
	}
	return max(from, newest)
}

// held counts the nodes for which an opset does not permit the 16-bit type, or not beside
// float32 where the operator has inputs that stay so.
func held(g *graph.Graph, elem graph.DType, version, from int64) (count int) {
	for _, n := range g.Nodes {
		if n.Domain != "" || ops.PrecisionOf(n) == ops.Full {
			continue
		}
		for i, t := range n.Inputs {
			if t < 0 || g.Tensors[t].Type.Elem != graph.Float32 {
				continue
			}
			stands := ops.Stands(n, i)
			if !stands && ops.Permits(n, newest, i, elem) && !ops.Permits(n, version, i, elem) || stands && ops.Alike(n, version, i, 0) && !ops.Alike(n, newest, i, 0) {
				count++
				break
			}
		}
	}
	return count
}
