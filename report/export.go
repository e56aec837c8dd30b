package report

import (
	"io"

	"github.com/onnxmem/onnxmem/plan"
)

// Export is a format of other tools.
type Export struct {
	Name  string
	Doc   string
	Write func(io.Writer, *plan.Plan) error
}

// Exports lists the formats. Each takes a consistent plan (see
// [plan.Plan.Check]). Equal plans give equal bytes.
var Exports = []Export{
	{"perfetto", "a trace for ui.perfetto.dev or chrome://tracing", Perfetto},
	{"c-header", "a C99 header with the arena's size and every offset", CHeader},
	{"csv", "the buffers of the arena in MiniMalloc's columns", BuffersCSV},
	{"memory-viz", "a snapshot for PyTorch's pytorch.org/memory_viz", MemoryViz},
}

// bufferLabel names a buffer in a few words, unescaped.
func bufferLabel(p *plan.Plan, b *plan.Buffer) string {
	if len(b.Tensors) == 0 && b.Node != nil {
		return "workspace of " + stepLabel(p, *b.Node)
	}
	if len(b.Tensors) == 0 {
		if whole := p.PartOf(b); whole != "" {
			return "part of " + whole
		}
		return b.Kind
	}
	return b.Tensors[0]
}

// stepLabel names a step by its node, or by its operator if that has no name.
func stepLabel(p *plan.Plan, step int) string {
	if name := p.Steps[step].Name; name != "" {
		return name
	}
	return p.Steps[step].Op
}
