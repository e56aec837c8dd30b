package verify_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// mutation is one corruption of a valid plan, or of its file, and the code of the
// violation that it must cause.
type mutation struct {
	name string // what is wrong
	of   string // in planned
	code string
	plan func(p *plan.Plan)
	file func(m *graph.Model)
}

// buffer returns the buffer of the main graph whose first tensor has that name.
func buffer(p *plan.Plan, name string) *plan.Buffer {
	for k := range p.Buffers {
		if b := &p.Buffers[k]; len(b.Tensors) > 0 && b.Tensors[0] == name {
			return b
		}
	}
	panic("no buffer " + name)
}

// within returns a buffer of some body.
func within(p *plan.Plan, name string) *plan.Buffer {
	for _, s := range p.Subgraphs {
		for k := range s.Buffers {
			if slices.Contains(s.Buffers[k].Tensors, name) {
				return &s.Buffers[k]
			}
		}
	}
	panic("no buffer " + name)
}

func workspace(list []plan.Buffer) *plan.Buffer {
	for k := range list {
		if list[k].Kind == plan.KindWorkspace {
			return &list[k]
		}
	}
	panic("no workspace")
}

// drop removes a buffer.
func drop(p *plan.Plan, name string) {
	p.Buffers = slices.DeleteFunc(p.Buffers, func(b plan.Buffer) bool { return len(b.Tensors) > 0 && b.Tensors[0] == name })
}

// join appends the second buffer's tensors to the first's.
func join(p *plan.Plan, first, second string) {
	tensors := buffer(p, second).Tensors
	last := buffer(p, second).Last
	drop(p, second)
	b := buffer(p, first)
	b.Tensors, b.Last = append(b.Tensors, tensors...), max(b.Last, last)
}

const (
	plain    = "nothing is shared"
	shared   = "views and in-place results share"
	viewed   = "views share"
	constant = "views of constants are resident"
	branchy  = "branches within branches"
	updating = "updates in place"
	repeated = "nodes run again"
	swapped  = "tensors leave and return"
)

// again returns the step of the node that makes a tensor, as Step.Again needs it.
func again(p *plan.Plan, made string) *plan.Step {
	for i := range p.Steps {
		if p.Steps[i].Name == "make "+made {
			return &p.Steps[i]
		}
	}
	panic("no step makes " + made)
}

// maker returns the node that makes a tensor.
func maker(m *graph.Model, made string) *graph.Node {
	for _, t := range m.Graph.Tensors {
		if t.Name == made {
			n := m.Graph.Nodes[t.Maker]
			n.Span = graph.Span{} // so that the encoder rewrites it
			return n
		}
	}
	panic("nothing makes " + made)
}

var mutations = []mutation{
	{name: "the arena's bytes are freed before the transfer ends", of: swapped, code: "lifetime", plan: func(p *plan.Plan) { buffer(p, "a").Last-- }},
	{name: "a tensor is live before its transfer back begins", of: swapped, code: "lifetime", plan: func(p *plan.Plan) { buffer(p, "a.back").First++ }},
	{name: "the host buffer begins too late", of: swapped, code: "lifetime", plan: func(p *plan.Plan) { buffer(p, "a.host").First++ }},
	{name: "the host buffer ends before the transfer back", of: swapped, code: "lifetime", plan: func(p *plan.Plan) { buffer(p, "a.host").Last-- }},
	{name: "a tensor on the host is in the arena", of: swapped, code: "pool", plan: func(p *plan.Plan) { buffer(p, "a.host").Pool = "arena" }},
	{name: "a swapped-in tensor is on the host", of: swapped, code: "pool", plan: func(p *plan.Plan) { buffer(p, "a.back").Pool = "host" }},
	{name: "the pool of the host is larger", of: swapped, code: "pool", plan: func(p *plan.Plan) { p.Pools[2].Bytes += 64 }},
	{name: "the pool of the host is missing", of: swapped, code: "pool", plan: func(p *plan.Plan) { p.Pools = p.Pools[:2] }},
	{name: "the host counts in the total", of: swapped, code: "summary", plan: func(p *plan.Plan) { p.Summary.TotalBytes += p.Pools[2].Bytes }},
	{name: "the host counts as a buffer of its own", of: swapped, code: "summary", plan: func(p *plan.Plan) { p.Summary.NaiveBytes += p.Pools[2].Bytes }},
	{name: "a swapped tensor and its copy share a buffer", of: swapped, code: "inplace", plan: func(p *plan.Plan) { join(p, "a", "a.host") }},
	{name: "waiting is understated", of: swapped, code: "limit", plan: func(p *plan.Plan) { p.Summary.WaitingPercent /= 2 }},
	{name: "a faster link", of: swapped, code: "limit", plan: func(p *plan.Plan) { p.Summary.HostLink *= 2 }},
	{name: "a link that takes away", of: swapped, code: "limit", plan: func(p *plan.Plan) { p.Summary.HostLink = -1 }},
	{name: "no transfer is counted", of: swapped, code: "limit", plan: func(p *plan.Plan) { p.Summary.SwappedBuffers = 0 }},
	{name: "swapped bytes are understated", of: swapped, code: "limit", plan: func(p *plan.Plan) { p.Summary.SwappedBytes-- }},
	{name: "a cost bound although tensors are swapped", of: swapped, code: "limit", plan: func(p *plan.Plan) { b := 0.0; p.Summary.ExtraCostBound = &b }},
	{name: "a transfer repeats a node", of: swapped, code: "repetition", plan: func(p *plan.Plan) { first := 0; p.Steps[5].Again = &first }},
	{name: "the input file had the transfer back", of: swapped, code: "program-order", plan: func(p *plan.Plan) {
		p.ProgramOrder.Steps = []int{0, 1, 2, 4, 5, 6, 7}
		p.ProgramOrder.LoadBytes = append(p.ProgramOrder.LoadBytes, 0)
	}},
	{name: "another tensor returns", of: swapped, code: "lifetime", file: func(m *graph.Model) {
		maker(m, "a.back").Inputs[0] = m.Graph.Nodes[2].Outputs[0]
	}},
	{name: "SwapOut is another function", of: swapped, code: "pool", file: func(m *graph.Model) {
		transferFunction(m, "SwapOut").Body.Nodes[0].Op = "Relu"
	}},
	{name: "SwapIn is another function", of: swapped, code: "workspace", file: func(m *graph.Model) {
		transferFunction(m, "SwapIn").Body.Nodes[0].Op = "Softmax"
	}},
	{name: "the function SwapIn is missing", of: swapped, code: "swap", file: func(m *graph.Model) {
		transferFunction(m, "SwapIn").Name = "SwapBack"
	}},
	{name: "a repetition of itself", of: repeated, code: "repetition", plan: func(p *plan.Plan) { *again(p, "a2").Again = 4 }},
	{name: "a repetition of a later step", of: repeated, code: "repetition", plan: func(p *plan.Plan) { *again(p, "a2").Again = 99 }},
	{name: "a repetition of a negative step", of: repeated, code: "repetition", plan: func(p *plan.Plan) { *again(p, "a2").Again = -1 }},
	{name: "a repetition of a repetition", of: repeated, code: "repetition", plan: func(p *plan.Plan) { *again(p, "a3").Again = 4 }},
	{name: "a repetition of another operator", of: repeated, code: "repetition", plan: func(p *plan.Plan) { *again(p, "a2").Again = 1 }},
	{name: "a repetition of another attribute", of: repeated, code: "repetition", file: func(m *graph.Model) {
		maker(m, "a2").Attrs = []*graph.Attr{{Name: "axis", Type: graph.AttrInt, Int: 1}}
	}},
	{name: "a repetition of another body", of: repeated, code: "repetition", file: func(m *graph.Model) {
		n := maker(m, "q2")
		n.Attrs[0], n.Attrs[1] = n.Attrs[1], n.Attrs[0]
		n.Attrs[0].Name, n.Attrs[1].Name = n.Attrs[1].Name, n.Attrs[0].Name
	}},
	{name: "a repetition that reads another value", of: repeated, code: "repetition", file: func(m *graph.Model) {
		n := maker(m, "c2")
		n.Inputs[0] = maker(m, "b").Outputs[0]
		m.Graph.Link()
	}},
	{name: "a repetition with an input less", of: repeated, code: "repetition", file: func(m *graph.Model) {
		n := maker(m, "m2")
		n.Inputs = n.Inputs[:1]
		m.Graph.Link()
	}},
	{name: "a random node is repeated", of: repeated, code: "repetition", plan: func(p *plan.Plan) {
		first := 2
		again(p, "r2").Again = &first
	}},
	{name: "a repetition is not marked", of: repeated, code: "program-order", plan: func(p *plan.Plan) { again(p, "a2").Again = nil }},
	{name: "program order holds a repetition", of: repeated, code: "program-order", plan: func(p *plan.Plan) { p.ProgramOrder.Steps[4] = 4 }},
	{name: "no limit although nodes run again", of: repeated, code: "limit", plan: func(p *plan.Plan) { p.Summary.Limited = nil }},
	{name: "a limit below the peak", of: repeated, code: "limit", plan: func(p *plan.Plan) { p.Summary.LimitBytes-- }},
	{name: "a limit below the arena", of: repeated, code: "limit", plan: func(p *plan.Plan) { p.Summary.LimitArena = true }},
	{name: "extra cost is understated", of: repeated, code: "limit", plan: func(p *plan.Plan) { p.Summary.ExtraCostPercent /= 2 }},
	{name: "a step has a negative cost", of: repeated, code: "limit", plan: func(p *plan.Plan) { p.Steps[0].CostNS = -1 }},
	{name: "a bound above the cost", of: repeated, code: "limit", plan: func(p *plan.Plan) { b := 101.0; p.Summary.ExtraCostBound = &b }},
	{name: "repetitions are understated", of: repeated, code: "limit", plan: func(p *plan.Plan) { p.Summary.RecomputedNodes-- }},
	{name: "a bound below 0", of: repeated, code: "limit", plan: func(p *plan.Plan) { b := -1.0; p.Summary.ExtraCostBound = &b }},
	{name: "a peak without the limit that one node does not fit into", of: repeated, code: "limit", plan: func(p *plan.Plan) { p.Summary.PlainPeakBytes = 64 }},
	{name: "a peak without the limit that is below the limit", of: repeated, code: "limit", plan: func(p *plan.Plan) { p.Summary.PlainPeakBytes = p.Summary.LimitBytes }},
	{name: "another peak without the limit, which is met anyway", of: plain, code: "limit", plan: func(p *plan.Plan) {
		p.Summary.Limited = &plan.Limited{LimitBytes: 1 << 20, PlainPeakBytes: p.Summary.PeakBytes + 64}
	}},
	{name: "costs without a limit", of: plain, code: "limit", plan: func(p *plan.Plan) { p.Steps[1].CostNS, p.Steps[2].CostNS = 5, 5 }},
	{name: "a transfer has a cost", of: swapped, code: "limit", plan: func(p *plan.Plan) { p.Steps[3].CostNS = 1 }},
	{name: "no limit although tensors are swapped", of: swapped, code: "limit", plan: func(p *plan.Plan) { p.Summary.Limited = nil }},
	{name: "a node of a body runs again", of: "a loop", code: "subgraph", plan: func(p *plan.Plan) { p.Subgraphs[0].Steps[1].Again = new(int) }},
	{name: "a node of a body has a cost", of: "a loop", code: "subgraph", plan: func(p *plan.Plan) { p.Subgraphs[0].Steps[1].CostNS = 7 }},

	frontier("a limit below 0", plan.FrontierPoint{LimitBytes: -1}),
	frontier("a larger limit behind a smaller one", plan.FrontierPoint{LimitBytes: 64}, plan.FrontierPoint{LimitBytes: 128}),
	frontier("a limit that the plan itself keeps is impossible", plan.FrontierPoint{LimitBytes: 192, Impossible: true}),
	frontier("what is impossible has a cost", plan.FrontierPoint{LimitBytes: 64, Impossible: true, ExtraCostPercent: percent(5)}),
	frontier("what is impossible has a bound", plan.FrontierPoint{LimitBytes: 64, Impossible: true, ExtraCostBound: percent(5)}),
	frontier("a plan below a limit that is impossible", plan.FrontierPoint{LimitBytes: 128, Impossible: true}, plan.FrontierPoint{LimitBytes: 64, ExtraCostPercent: percent(5)}),
	frontier("a cost below 0", plan.FrontierPoint{LimitBytes: 64, ExtraCostPercent: percent(-5)}),
	frontier("a bound below 0", plan.FrontierPoint{LimitBytes: 64, ExtraCostBound: percent(-5)}),
	frontier("a bound above the cost", plan.FrontierPoint{LimitBytes: 64, ExtraCostPercent: percent(5), ExtraCostBound: percent(6)}),
	frontier("a smaller limit costs less", plan.FrontierPoint{LimitBytes: 128, ExtraCostPercent: percent(5)}, plan.FrontierPoint{LimitBytes: 96}, plan.FrontierPoint{LimitBytes: 64, ExtraCostPercent: percent(4)}),

	{name: "buffers that are not swapped", of: repeated, code: "limit", plan: func(p *plan.Plan) { p.Summary.SwappedBuffers++ }},

	{name: "the file is another", of: plain, code: "sha256", plan: func(p *plan.Plan) { p.Model.GraphSHA256 = strings.Repeat("0", 64) }},
	{name: "the file is longer", of: plain, code: "bytes", plan: func(p *plan.Plan) { p.Model.Bytes++ }},
	{name: "the file's name is a path", of: plain, code: "format", plan: func(p *plan.Plan) { p.Model.File = "../out.onnx" }},
	{name: "the source's name is a path", of: plain, code: "source", plan: func(p *plan.Plan) { p.Source.File = "/etc/passwd" }},
	{name: "the source has no name", of: plain, code: "source", plan: func(p *plan.Plan) { p.Source.File = "" }},
	{name: "the source has a length below 0", of: plain, code: "source", plan: func(p *plan.Plan) { p.Source.Bytes = -1 }},
	{name: "the source's hash is none", of: plain, code: "source", plan: func(p *plan.Plan) { p.Source.GraphSHA256 = strings.Repeat("G", 64) }},
	{name: "the source's hash is short", of: plain, code: "source", plan: func(p *plan.Plan) { p.Source.GraphSHA256 = p.Source.GraphSHA256[1:] }},
	{name: "version", of: plain, code: "format", plan: func(p *plan.Plan) { p.Version = 2 }},
	{name: "mode of an inference model", of: plain, code: "mode", plan: func(p *plan.Plan) { p.Mode = "training" }},
	{name: "a training graph states its mode twice", of: updating, code: "annotation", file: func(m *graph.Model) {
		m.Props = append(m.Props, graph.Prop{Key: "onnxmem.mode", Value: "inference"})
	}},
	{name: "the list of updates occurs twice", of: updating, code: "annotation", file: func(m *graph.Model) {
		m.Props = append(m.Props, graph.Prop{Key: "onnxmem.updates", Value: "[]"})
	}},
	{name: "mode of a training graph", of: updating, code: "mode", plan: func(p *plan.Plan) { p.Mode = "inference" }},
	{name: "alignment is not a power of two", of: plain, code: "alignment", plan: func(p *plan.Plan) { p.Alignment = 48 }},
	{name: "alignment is 0", of: plain, code: "alignment", plan: func(p *plan.Plan) { p.Alignment = 0 }},

	{name: "a dimension has another length", of: "given dimensions", code: "dims", plan: func(p *plan.Plan) { p.Dims["other"] = plan.Dim{Value: 2, Assumed: true} }},
	{name: "a given dimension is called assumed", of: "given dimensions", code: "dims", plan: func(p *plan.Plan) { p.Dims["batch"] = plan.Dim{Value: 4, Assumed: true} }},
	{name: "an assumed dimension is called given", of: "given dimensions", code: "annotation", plan: func(p *plan.Plan) { p.Dims["other"] = plan.Dim{Value: 1} }},
	{name: "a given dimension is another", of: "given dimensions", code: "size", plan: func(p *plan.Plan) { p.Dims["batch"] = plan.Dim{Value: 8} }},
	{name: "a dimension is missing", of: "given dimensions", code: "dims", plan: func(p *plan.Plan) { delete(p.Dims, "other") }},
	{name: "a dimension that the model lacks", of: "given dimensions", code: "dims", plan: func(p *plan.Plan) { p.Dims["more"] = plan.Dim{Value: 1} }},
	{name: "an assumed dimension that the model lacks", of: plain, code: "dims", plan: func(p *plan.Plan) { p.Dims["more"] = plan.Dim{Value: 1, Assumed: true} }},
	{name: "a parameter has a value", of: updating, code: "values", plan: func(p *plan.Plan) { p.Values = map[string]graph.Literal{"w": {Data: []json.Number{"1"}}} }},
	{name: "a capacity of caches that the file lacks", of: plain, code: "kv", plan: func(p *plan.Plan) { p.KV = &plan.KV{Capacity: 4, New: 1, Index: "x"} }},
	{name: "an input that does not exist has a value", of: plain, code: "values", plan: func(p *plan.Plan) { p.Values = map[string]graph.Literal{"z": {Data: []json.Number{"1"}}} }},
	{name: "an input has a value that the file does not list", of: plain, code: "annotation", plan: func(p *plan.Plan) {
		p.Values = map[string]graph.Literal{"x": graph.Literal{Data: []json.Number{"1"}}.Filled([]int64{1, 16})}
	}},
	{name: "a dimension beyond reason", of: "given dimensions", code: "dims", plan: func(p *plan.Plan) { p.Dims["batch"] = plan.Dim{Value: 1 << 62} }},

	{name: "two buffers overlap by their last byte", of: "alignment 1", code: "overlap", plan: func(p *plan.Plan) { buffer(p, "a").Offset-- }},
	{name: "two buffers overlap wholly", of: plain, code: "overlap", plan: func(p *plan.Plan) { buffer(p, "c").Offset = buffer(p, "a").Offset }},
	{name: "resident buffers overlap", of: constant, code: "overlap", plan: func(p *plan.Plan) { buffer(p, "k").Offset = buffer(p, "w").Offset }},
	{name: "a body's constants overlap", of: branchy, code: "overlap", plan: func(p *plan.Plan) { within(p, "w").Offset = within(p, "k").Offset }},
	{name: "buffers of a body overlap", of: branchy, code: "overlap", plan: func(p *plan.Plan) { within(p, "t2").Offset = within(p, "t1").Offset }},
	{name: "an offset is not aligned", of: plain, code: "alignment", plan: func(p *plan.Plan) { buffer(p, "d").Offset++ }},
	{name: "an offset is negative", of: plain, code: "offset", plan: func(p *plan.Plan) { buffer(p, "x").Offset = -64 }},
	{name: "an offset whose end overflows", of: plain, code: "offset", plan: func(p *plan.Plan) { buffer(p, "x").Offset = 1<<63 - 64 }},

	{name: "a lifetime ends early", of: plain, code: "lifetime", plan: func(p *plan.Plan) { buffer(p, "a").Last-- }},
	{name: "a lifetime ends late", of: plain, code: "lifetime", plan: func(p *plan.Plan) { buffer(p, "b").Last++ }},
	{name: "a lifetime begins late", of: plain, code: "lifetime", plan: func(p *plan.Plan) { buffer(p, "y").First++ }},
	{name: "a lifetime begins early", of: plain, code: "lifetime", plan: func(p *plan.Plan) { buffer(p, "d").First-- }},
	{name: "a constant does not live always", of: plain, code: "lifetime", plan: func(p *plan.Plan) { buffer(p, "w").Last-- }},
	{name: "a chain's lifetime ends early", of: shared, code: "lifetime", plan: func(p *plan.Plan) { buffer(p, "y").Last-- }},
	{name: "a size is too small", of: plain, code: "size", plan: func(p *plan.Plan) { buffer(p, "a").Bytes -= 64 }},
	{name: "a size is too large", of: plain, code: "size", plan: func(p *plan.Plan) { buffer(p, "a").Bytes += 64 }},
	{name: "a size is negative", of: plain, code: "size", plan: func(p *plan.Plan) { buffer(p, "a").Bytes = -64 }},
	{name: "kind of an output", of: plain, code: "kind", plan: func(p *plan.Plan) { buffer(p, "d").Kind = "activation" }},
	{name: "kind of an input", of: plain, code: "kind", plan: func(p *plan.Plan) { buffer(p, "x").Kind = "activation" }},
	{name: "kind of a constant", of: plain, code: "kind", plan: func(p *plan.Plan) { buffer(p, "w").Kind = "parameter" }},
	{name: "kind of a parameter that is called a state", of: updating, code: "kind", plan: func(p *plan.Plan) { buffer(p, "w").Kind = "state" }},
	{name: "kind of a parameter", of: updating, code: "kind", plan: func(p *plan.Plan) { buffer(p, "w").Kind = "constant" }},
	{name: "kind of a gradient", of: updating, code: "kind", plan: func(p *plan.Plan) { buffer(p, "h").Kind = "activation" }},
	{name: "an unknown kind", of: plain, code: "kind", plan: func(p *plan.Plan) { buffer(p, "a").Kind = "scratch" }},
	{name: "a buffer of tensors names a node", of: plain, code: "kind", plan: func(p *plan.Plan) { buffer(p, "a").Node = new(int) }},
	{name: "a buffer without tensors", of: plain, code: "kind", plan: func(p *plan.Plan) {
		p.Buffers = append(p.Buffers, plan.Buffer{Pool: "arena", Kind: "activation", Tensors: []string{}})
	}},
	{name: "a buffer is called bounded", of: plain, code: "bounded", plan: func(p *plan.Plan) { buffer(p, "a").Bounded = true }},
	{name: "a buffer is not called bounded", of: "dynamic and bounded tensors", code: "bounded", plan: func(p *plan.Plan) { buffer(p, "i").Bounded = false }},
	{name: "prices of traffic without pools", of: plain, code: "traffic", plan: func(p *plan.Plan) { p.TrafficPrices = []plan.TrafficPrice{{Step: 1, Price: 1}} }},
	{name: "an activation is resident", of: plain, code: "pool", plan: func(p *plan.Plan) { buffer(p, "a").Pool = "resident" }},
	{name: "a constant lies in the arena", of: plain, code: "pool", plan: func(p *plan.Plan) { buffer(p, "w").Pool = "arena" }},
	{name: "an activation lies on the host", of: plain, code: "pool", plan: func(p *plan.Plan) { buffer(p, "a").Pool = "host" }},
	{name: "an unknown pool", of: plain, code: "pool", plan: func(p *plan.Plan) { buffer(p, "a").Pool = "elsewhere" }},
	{name: "the arena is smaller", of: plain, code: "pool", plan: func(p *plan.Plan) { p.Pools[0].Bytes -= 64 }},
	{name: "the resident pool is larger", of: plain, code: "pool", plan: func(p *plan.Plan) { p.Pools[1].Bytes += 64 }},
	{name: "the resident pool has a hole", of: plain, code: "pool", plan: func(p *plan.Plan) { buffer(p, "w").Offset += 64 }},
	{name: "a pool is missing", of: plain, code: "pool", plan: func(p *plan.Plan) { p.Pools = p.Pools[:1] }},
	{name: "a pool occurs twice", of: plain, code: "pool", plan: func(p *plan.Plan) { p.Pools = append(p.Pools, p.Pools[0]) }},
	{name: "a pool too many", of: plain, code: "pool", plan: func(p *plan.Plan) { p.Pools = append(p.Pools, plan.Pool{Name: "more"}) }},

	{name: "a tensor is missing", of: plain, code: "missing-tensor", plan: func(p *plan.Plan) { drop(p, "b") }},
	{name: "an unread input is missing", of: "no nodes", code: "missing-tensor", plan: func(p *plan.Plan) { drop(p, "y") }},
	{name: "an initializer is missing", of: plain, code: "missing-tensor", plan: func(p *plan.Plan) { drop(p, "w") }},
	{name: "a view is missing", of: shared, code: "missing-tensor", plan: func(p *plan.Plan) {
		b := buffer(p, "y")
		b.Tensors = slices.DeleteFunc(b.Tensors, func(n string) bool { return n == "v" })
	}},
	{name: "a tensor is in two buffers", of: plain, code: "duplicate-tensor", plan: func(p *plan.Plan) { p.Buffers = append(p.Buffers, *buffer(p, "b")) }},
	{name: "a tensor occurs twice in a buffer", of: plain, code: "duplicate-tensor", plan: func(p *plan.Plan) { buffer(p, "b").Tensors = []string{"b", "b"} }},
	{name: "a name that the graph lacks", of: plain, code: "unknown-tensor", plan: func(p *plan.Plan) { buffer(p, "b").Tensors[0] = "nobody" }},
	{name: "tensors of a buffer out of order", of: shared, code: "tensor-order", plan: func(p *plan.Plan) { slices.Reverse(buffer(p, "y").Tensors) }},
	{name: "a dynamic tensor is not listed", of: "dynamic and bounded tensors", code: "dynamic", plan: func(p *plan.Plan) { p.Dynamic = p.Dynamic[1:] }},
	{name: "a tensor is called dynamic", of: "dynamic and bounded tensors", code: "dynamic", plan: func(p *plan.Plan) { p.Dynamic = append(p.Dynamic, plan.Dynamic{Tensor: "j", Node: "make j"}) }},
	{name: "a dynamic tensor has a buffer", of: "dynamic and bounded tensors", code: "dynamic", plan: func(p *plan.Plan) { b := buffer(p, "j"); b.Tensors = append(b.Tensors, "y") }},
	{name: "a dynamic tensor occurs twice", of: "dynamic and bounded tensors", code: "duplicate-tensor", plan: func(p *plan.Plan) { p.Dynamic = append(p.Dynamic, p.Dynamic[0]) }},
	{name: "a dynamic tensor that the graph lacks", of: plain, code: "unknown-tensor", plan: func(p *plan.Plan) { p.Dynamic = append(p.Dynamic, plan.Dynamic{Tensor: "nobody"}) }},
	{name: "the maker of a dynamic tensor", of: "dynamic and bounded tensors", code: "dynamic", plan: func(p *plan.Plan) { p.Dynamic[0].Node = "make j" }},

	{name: "in place while another reads later", of: shared, code: "inplace", plan: func(p *plan.Plan) { join(p, "x", "y") }},
	{name: "in place without sharing", of: plain, code: "inplace", plan: func(p *plan.Plan) { join(p, "x", "a") }},
	{name: "in place over a tensor that was not read", of: viewed, code: "inplace", plan: func(p *plan.Plan) { p.Sharing.Inplace = true; join(p, "x", "c") }},
	{name: "in place over an initializer", of: "in place over a constant", code: "inplace"},
	{name: "in place over a graph output", of: "in place over an output", code: "inplace"},
	{name: "in place over a tensor that a later node reads", of: "in place over a tensor that is read later", code: "inplace"},
	{name: "in place over another size", of: "in place over another size", code: "inplace"},
	{name: "two inputs in one buffer", of: plain, code: "inplace", plan: func(p *plan.Plan) { join(p, "x", "y") }},
	{name: "in place over a captured tensor", of: "a body reads from outside", code: "unknown-tensor", plan: func(p *plan.Plan) {
		b := within(p, "t")
		b.Tensors = append([]string{"x"}, b.Tensors...)
	}},
	{name: "a view without sharing", of: plain, code: "view", plan: func(p *plan.Plan) { join(p, "b", "v") }},
	{name: "a view has its own buffer", of: viewed, code: "view", plan: func(p *plan.Plan) {
		b := buffer(p, "b")
		b.Tensors = b.Tensors[:1]
		c := *b
		c.Tensors = []string{"v"}
		p.Buffers = append(p.Buffers, c)
	}},
	{name: "views that sharing forbids", of: viewed, code: "view", plan: func(p *plan.Plan) { p.Sharing.Views = false }},
	{name: "in-place results that sharing forbids", of: shared, code: "inplace", plan: func(p *plan.Plan) { p.Sharing.Inplace = false }},

	{name: "an updated parameter has its own buffer", of: updating, code: "update", plan: func(p *plan.Plan) {
		b := buffer(p, "w")
		b.Tensors = b.Tensors[:1]
		c := *b
		c.Tensors, c.Offset = []string{"w.new"}, 64
		p.Buffers = append(p.Buffers, c)
	}},
	{name: "a parameter is updated before it is read", of: "update before the last reader", code: "inplace"},
	{name: "a view of what is no view", of: "not a view", code: "inplace"},
	{name: "an update that occurs twice", of: updating, code: "update", file: func(m *graph.Model) { m.SetProp("onnxmem.updates", `["w=w.new","w=w.new"]`) }},
	{name: "a gradient that the graph lacks", of: updating, code: "update", file: func(m *graph.Model) { m.SetProp("onnxmem.gradients", `["w=w.grad","x=x.grad"]`) }},
	{name: "gradients that are not a list", of: updating, code: "update", file: func(m *graph.Model) { m.SetProp("onnxmem.gradients", "w=w.grad") }},
	{name: "the list of gradients occurs twice", of: updating, code: "annotation", file: func(m *graph.Model) {
		m.Props = append(m.Props, graph.Prop{Key: "onnxmem.gradients", Value: "[]"})
	}},
	{name: "an update of a tensor that is not an input", of: updating, code: "update", file: func(m *graph.Model) { m.SetProp("onnxmem.updates", "h=w.new") }},

	{name: "steps are exchanged", of: plain, code: "order", plan: func(p *plan.Plan) { p.Steps[1], p.Steps[2] = p.Steps[2], p.Steps[1] }},
	{name: "a step is missing", of: plain, code: "order", plan: func(p *plan.Plan) { p.Steps = p.Steps[1:] }},
	{name: "a step has another operator", of: plain, code: "order", plan: func(p *plan.Plan) { p.Steps[0].Op = "Sigmoid" }},
	{name: "the file's nodes are exchanged", of: plain, code: "order", file: func(m *graph.Model) { g := m.Graph; g.Nodes[1], g.Nodes[2] = g.Nodes[2], g.Nodes[1] }},
	{name: "a body's nodes are exchanged", of: branchy, code: "order", file: func(m *graph.Model) {
		for _, n := range m.Graph.Nodes {
			for _, a := range n.Bodies() {
				if g := a.Graph; len(g.Nodes) == 2 && g.Nodes[0].Op == "Add" {
					g.Nodes[0], g.Nodes[1] = g.Nodes[1], g.Nodes[0]
				}
			}
		}
	}},
	{name: "a load", of: plain, code: "load", plan: func(p *plan.Plan) { p.Steps[2].LoadBytes -= 64 }},
	{name: "a load within a body", of: "a loop", code: "load", plan: func(p *plan.Plan) { p.Subgraphs[0].Steps[0].LoadBytes++ }},

	{name: "program order is short", of: plain, code: "program-order", plan: func(p *plan.Plan) { p.ProgramOrder.Steps = p.ProgramOrder.Steps[1:] }},
	{name: "program order has a step twice", of: plain, code: "program-order", plan: func(p *plan.Plan) { p.ProgramOrder.Steps[1] = 0 }},
	{name: "program order has a step too many", of: plain, code: "program-order", plan: func(p *plan.Plan) { p.ProgramOrder.Steps[1] = 99 }},
	{name: "program order is not topological", of: plain, code: "program-order", plan: func(p *plan.Plan) { slices.Reverse(p.ProgramOrder.Steps) }},
	{name: "a load of program order", of: plain, code: "program-order", plan: func(p *plan.Plan) { p.ProgramOrder.LoadBytes[3] += 64 }},

	{name: "a workspace is missing", of: branchy, code: "workspace", plan: func(p *plan.Plan) {
		p.Buffers = slices.DeleteFunc(p.Buffers, func(b plan.Buffer) bool { return b.Kind == "workspace" })
	}},
	{name: "a workspace is too small", of: branchy, code: "workspace", plan: func(p *plan.Plan) { workspace(p.Buffers).Bytes -= 64 }},
	{name: "a workspace is too large", of: branchy, code: "workspace", plan: func(p *plan.Plan) { workspace(p.Buffers).Bytes += 64 }},
	{name: "a workspace of a node that needs none", of: branchy, code: "workspace", plan: func(p *plan.Plan) { *workspace(p.Buffers).Node = 0 }},
	{name: "a workspace of no node", of: branchy, code: "workspace", plan: func(p *plan.Plan) { *workspace(p.Buffers).Node = 7 }},
	{name: "a workspace without a node", of: branchy, code: "workspace", plan: func(p *plan.Plan) { workspace(p.Buffers).Node = nil }},
	{name: "a workspace occurs twice", of: branchy, code: "workspace", plan: func(p *plan.Plan) { p.Buffers = append(p.Buffers, *workspace(p.Buffers)) }},
	{name: "a workspace with a tensor", of: branchy, code: "kind", plan: func(p *plan.Plan) { workspace(p.Buffers).Tensors = []string{"a"} }},
	{name: "a workspace lives too long", of: branchy, code: "lifetime", plan: func(p *plan.Plan) { workspace(p.Buffers).Last++ }},
	{name: "a workspace is resident", of: branchy, code: "pool", plan: func(p *plan.Plan) { workspace(p.Buffers).Pool = "resident" }},
	{name: "a local function has too little", of: "local functions", code: "workspace", plan: func(p *plan.Plan) { workspace(p.Buffers).Bytes = 128 }},
	{name: "a local function has an odd size", of: "local functions", code: "size", plan: func(p *plan.Plan) { workspace(p.Buffers).Bytes += 1 }},

	{name: "a subgraph is missing", of: branchy, code: "subgraph", plan: func(p *plan.Plan) { p.Subgraphs = p.Subgraphs[:3] }},
	{name: "a subgraph too many", of: branchy, code: "subgraph", plan: func(p *plan.Plan) { p.Subgraphs = append(p.Subgraphs, p.Subgraphs[0]) }},
	{name: "a subgraph's parent", of: branchy, code: "subgraph", plan: func(p *plan.Plan) { p.Subgraphs[2].Parent = nil }},
	{name: "a subgraph's node", of: branchy, code: "subgraph", plan: func(p *plan.Plan) { p.Subgraphs[0].Step = 0 }},
	{name: "a subgraph's attribute", of: branchy, code: "subgraph", plan: func(p *plan.Plan) { p.Subgraphs[0].Attribute = "body" }},
	{name: "a subgraph's bytes", of: branchy, code: "subgraph", plan: func(p *plan.Plan) { p.Subgraphs[0].Bytes = 0 }},
	{name: "a subgraph's tensor is missing", of: "a loop", code: "missing-tensor", plan: func(p *plan.Plan) { p.Subgraphs[0].Buffers = p.Subgraphs[0].Buffers[1:] }},
	{name: "a subgraph's buffer lies in the arena", of: "a loop", code: "pool", plan: func(p *plan.Plan) { p.Subgraphs[0].Buffers[0].Pool = "arena" }},

	{name: "a certificate claims too much", of: plain, code: "certificate", plan: func(p *plan.Plan) {
		p.Certificates = []plan.Certificate{{Kind: "cut", Nodes: []string{"make d"}, Steps: []int{4}, ValueBytes: 256}}
		p.Summary.LowerBoundBytes = 256
	}},
	{name: "a certificate names another node", of: plain, code: "certificate", plan: func(p *plan.Plan) {
		p.Certificates = []plan.Certificate{{Kind: "cut", Nodes: []string{"make a"}, Steps: []int{4}, ValueBytes: 192}}
		p.Summary.LowerBoundBytes = 192
	}},
	{name: "a certificate of no node", of: plain, code: "certificate", plan: func(p *plan.Plan) {
		p.Certificates = []plan.Certificate{{Kind: "cut", Nodes: []string{"make d"}, Steps: []int{-1}, ValueBytes: 1}}
	}},
	forged("a cut says one unit too much", "cut", 960+64, 1),
	forged("a cut of the wrong node", "cut", 960, 2),
	forged("a cut of two nodes", "cut", 64, 1, 3),
	forged("a cut beyond the last step", "cut", 64, 10),
	forged("a set called a cut", "cut", 1088, 1),
	forged("a first-of-set says one unit too much", "first-of-set", 1088+64, 1, 3),
	forged("a first-of-set of one node less", "first-of-set", 1088, 1),
	forged("a first-of-set of one node more", "first-of-set", 1088, 0, 1, 3),
	forged("a first-of-set called last-of-set", "last-of-set", 1088, 1, 3),
	forged("a last-of-set says one unit too much", "last-of-set", 832+64, 5, 7),
	forged("a last-of-set of the wrong nodes", "last-of-set", 832, 5, 8),
	forged("a last-of-set called first-of-set", "first-of-set", 832, 5, 7),
	forged("a set of no node", "first-of-set", 0),
	forged("a set with a node twice", "last-of-set", 64, 5, 7, 5),
	forged("a set with a step below 0", "first-of-set", 64, 1, -1),
	forged("a set with a step beyond the last", "last-of-set", 64, 5, 1<<40),
	{name: "a certificate of a set names another node", of: "competing nodes", code: "certificate", plan: func(p *plan.Plan) {
		certify(p, "first-of-set", 1088, 1, 3)
		p.Certificates[0].Nodes[1] = "make k"
	}},
	{name: "a certificate of a set names no nodes", of: "competing nodes", code: "certificate", plan: func(p *plan.Plan) {
		certify(p, "first-of-set", 1088, 1, 3)
		p.Certificates[0].Nodes = nil
	}},
	{name: "a certificate of a set names a node too many", of: "competing nodes", code: "certificate", plan: func(p *plan.Plan) {
		certify(p, "first-of-set", 1088, 1, 3)
		p.Certificates[0].Nodes = append(p.Certificates[0].Nodes, "make k")
	}},
	{name: "a certificate below 0", of: plain, code: "certificate", plan: func(p *plan.Plan) {
		p.Certificates = []plan.Certificate{{Kind: "cut", Nodes: []string{"make d"}, Steps: []int{4}, ValueBytes: -1}}
	}},
	{name: "a search above the plan's own peak", of: plain, code: "certificate", plan: func(p *plan.Plan) {
		p.Certificates = []plan.Certificate{{Kind: "search", ValueBytes: p.Summary.PeakBytes + 1}}
	}},
	{name: "a search of nodes", of: plain, code: "certificate", plan: func(p *plan.Plan) {
		p.Certificates = []plan.Certificate{{Kind: "search", Nodes: []string{"make d"}, Steps: []int{4}, ValueBytes: 64}}
	}},
	{name: "a certificate of unknown kind", of: plain, code: "certificate", plan: func(p *plan.Plan) { p.Certificates = []plan.Certificate{{Kind: "trust me", ValueBytes: 1}} }},
	{name: "a lower bound without a certificate", of: plain, code: "certificate", plan: func(p *plan.Plan) { p.Summary.LowerBoundBytes = 64 }},
	{name: "a lower bound above the peak", of: plain, code: "certificate", plan: func(p *plan.Plan) {
		p.Certificates = []plan.Certificate{{Kind: "search", ValueBytes: 1 << 20}}
		p.Summary.LowerBoundBytes = 1 << 20
	}},
	{name: "a lower bound below 0", of: plain, code: "certificate", plan: func(p *plan.Plan) { p.Summary.LowerBoundBytes = -1 }},

	{name: "summary: nodes", of: plain, code: "summary", plan: func(p *plan.Plan) { p.Summary.Nodes++ }},
	{name: "summary: tensors", of: plain, code: "summary", plan: func(p *plan.Plan) { p.Summary.Tensors++ }},
	{name: "summary: dynamic", of: plain, code: "summary", plan: func(p *plan.Plan) { p.Summary.Dynamic++ }},
	{name: "summary: resident", of: plain, code: "summary", plan: func(p *plan.Plan) { p.Summary.ResidentBytes-- }},
	{name: "summary: naive", of: plain, code: "summary", plan: func(p *plan.Plan) { p.Summary.NaiveBytes++ }},
	{name: "summary: program order's peak", of: plain, code: "summary", plan: func(p *plan.Plan) { p.Summary.ProgramPeakBytes++ }},
	{name: "summary: peak", of: plain, code: "summary", plan: func(p *plan.Plan) { p.Summary.PeakBytes-- }},
	{name: "summary: arena", of: plain, code: "summary", plan: func(p *plan.Plan) { p.Summary.ArenaBytes -= 64 }},
	{name: "summary: total", of: plain, code: "summary", plan: func(p *plan.Plan) { p.Summary.TotalBytes++ }},
	{name: "summary: peak step", of: plain, code: "summary", plan: func(p *plan.Plan) { p.Summary.PeakStep++ }},
	{name: "summary: optimal without proof", of: plain, code: "summary", plan: func(p *plan.Plan) { p.Summary.ScheduleOptimal = true }},
	{name: "summary: the arena is the peak, and not called optimal", of: "two steps", code: "summary", plan: func(p *plan.Plan) { p.Summary.PlacementOptimal = false }},
	{name: "summary: optimal and not said", of: "nothing at all", code: "summary", plan: func(p *plan.Plan) { p.Summary.ScheduleOptimal = false }},

	{name: "a node's place is another", of: plain, code: "annotation", file: func(m *graph.Model) { m.Graph.Nodes[0].SetProp("onnxmem.offset", "a=arena:0:64") }},
	{name: "a node's place is missing", of: plain, code: "annotation", file: func(m *graph.Model) { m.Graph.Nodes[0].DropProp("onnxmem.offset") }},
	{name: "a node's place occurs twice", of: plain, code: "annotation", file: func(m *graph.Model) {
		n := m.Graph.Nodes[0]
		n.Props = append(n.Props, n.Props[0])
	}},
	{name: "a node without places has one", of: "dynamic and bounded tensors", code: "annotation", file: func(m *graph.Model) { m.Graph.Nodes[0].SetProp("onnxmem.offset", "z=arena:0:64") }},
	{name: "a body's place is another", of: "a loop", code: "annotation", file: func(m *graph.Model) {
		m.Graph.Nodes[0].Bodies()[0].Graph.Nodes[0].SetProp("onnxmem.offset", "again=workspace:64:64")
	}},
	{name: "the model's arena is another", of: plain, code: "annotation", file: func(m *graph.Model) { m.SetProp("onnxmem.arena_bytes", "1") }},
	{name: "the model's peak is another", of: plain, code: "annotation", file: func(m *graph.Model) { m.SetProp("onnxmem.peak_bytes", "1") }},
	{name: "the model's lower bound is another", of: plain, code: "annotation", file: func(m *graph.Model) { m.SetProp("onnxmem.lower_bound_bytes", "1") }},
	{name: "the model's dims are others", of: "assumed dimensions", code: "annotation", file: func(m *graph.Model) { m.SetProp("onnxmem.dims", "{}") }},
	{name: "the model's plan version is another", of: plain, code: "annotation", file: func(m *graph.Model) { m.SetProp("onnxmem.plan_version", "2") }},
}

// forged gives a plan a certificate that proves less than it claims, and the lower bound
// that it would prove.
func forged(name, kind string, bytes int64, steps ...int) mutation {
	return mutation{name: name, of: "competing nodes", code: "certificate", plan: func(p *plan.Plan) { certify(p, kind, bytes, steps...) }}
}

// frontier gives a plan with a peak of 192 an impossible list of other limits.
func frontier(name string, points ...plan.FrontierPoint) mutation {
	return mutation{name: "frontier: " + name, of: plain, code: "frontier", plan: func(p *plan.Plan) { p.Frontier = points }}
}

func percent(f float64) *float64 { return &f }

// certify gives a plan one certificate and the lower bound that it proves.
func certify(p *plan.Plan, kind string, bytes int64, steps ...int) {
	c := plan.Certificate{Kind: kind, Nodes: []string{}, Steps: steps, ValueBytes: bytes}
	for _, step := range steps {
		if step >= 0 && step < len(p.Steps) {
			c.Nodes = append(c.Nodes, p.Steps[step].Name)
		}
	}
	p.Certificates, p.Summary.LowerBoundBytes = []plan.Certificate{c}, bytes
	p.Summary.ScheduleOptimal = bytes == p.Summary.PeakBytes
}

// bases are further plans: some share buffers that must not be shared, with figures to
// match; some are valid.
var bases = map[string]struct {
	x text
	naive
}{
	"in place over a constant": {text{main: `
		in x float32[16]
		init w float32[16] = ...
		c = Add(x, w)
		out c
		out x
	`}, naive{inplace: true, groups: []string{"w c"}}},
	"in place over an output": {text{main: `
		in x float32[16]
		a = Sigmoid(x)
		b = Relu(a)
		out a
		out b
	`}, naive{inplace: true, groups: []string{"x a b"}}},
	"in place over a tensor that is read later": {text{main: `
		in x float32[16]
		a = Sigmoid(x)
		b = Relu(a)
		c = Sigmoid(a)
		d = Add(b, c)
		out d
	`}, naive{inplace: true, groups: []string{"x a b", "c d"}}},
	"in place over another size": {text{main: `
		in x float32[16]
		in y float32[4,16]
		a = Add(x, y)
		out a
		out y
	`}, naive{inplace: true, groups: []string{"x a"}}},
	// Of c1's and c2's readers with large results, one runs first, while the other's
	// input is live. Of the two nodes on k, one runs last, while the other's result is
	// live.
	"competing nodes": {text{main: `
		in x float32[96]
		in k float32[32]
		c1, c2 = Split(x) num_outputs=2
		b1 = Concat(c1, c1, c1) axis=0
		d1 = ReduceMax(b1) keepdims=0
		b2 = Concat(c2, c2, c2) axis=0
		d2 = ReduceMax(b2) keepdims=0
		h1 = Concat(k, k, k, k) axis=0
		i1 = ReduceMax(h1) keepdims=0
		h2 = Concat(k, k, k, k) axis=0
		i2 = ReduceMax(h2) keepdims=0
		s = Sum(d1, d2, i1, i2)
		out s
	`}, naive{}},
	"two steps": {text{main: `
		in x float32[16]
		a = Relu(x)
		out a
	`}, naive{}},
	"a function of two steps": {text{
		main: `
			in x float32[16]
			a = local::Two(x)
			out a
		`,
		functions: map[string]string{"Two": `
			in u
			s = Relu(u)
			t = Relu(s)
			out t
		`},
	}, naive{}},
	"a function with branches": {text{
		main: `
			in p bool[]
			in x float32[16]
			a = local::Choose(p, x)
			out a
		`,
		functions: map[string]string{"Choose": `
			in q
			in u
			r = If(q)
			out r
		`},
		bodies: map[string]string{
			"r.then_branch": "t = Relu(u)\ns = Relu(t)\nout s",
			"r.else_branch": "e = Sigmoid(u)\nout e",
		},
	}, naive{}},
	"not a view": {text{main: `
		in x float32[16]
		a = CumSum(x, k)
		init k int64[] = ...
		b = Softmax(x)
		c = Add(a, b)
		out c
	`}, naive{views: true, groups: []string{"x a"}}},
	"a body reads from outside": {text{
		main: `
			in p bool[]
			in x float32[16]
			r = If(p)
			out r
		`,
		bodies: map[string]string{
			"r.then_branch": "t = Relu(x)\nout t",
			"r.else_branch": "e = Sigmoid(x)\nout e",
		},
	}, naive{}},
	repeated: {text{
		main: `
			in p bool[]
			in x float32[8,8]
			a = Softmax(x) axis=0
			b = Relu(a)
			r = RandomNormalLike(x)
			q = If(p)
			a2 = Softmax(x) axis=0
			c = Add(a2, r)
			a3 = Softmax(x) axis=0
			m = Sum(c, b, q)
			c2 = Add(a3, r)
			q2 = If(p)
			m2 = Sum(c2, b, q2)
			r2 = RandomNormalLike(x)
			y = Sum(m, a3, q, r2, m2)
			out y
		`,
		bodies: map[string]string{
			"q.then_branch": "t = Relu(a)\nout t", "q.else_branch": "e = Sigmoid(a)\nout e",
			"q2.then_branch": "t2 = Relu(a3)\nout t2", "q2.else_branch": "e2 = Sigmoid(a3)\nout e2",
		},
	}, naive{
		again: map[string]string{"a2": "a", "a3": "a", "c2": "c", "q2": "q", "m2": "m"},
		plain: `
			in p bool[]
			in x float32[8,8]
			a = Softmax(x) axis=0
			b = Relu(a)
			r = RandomNormalLike(x)
			q = If(p)
			c = Add(a, r)
			m = Sum(c, b, q)
			r2 = RandomNormalLike(x)
			y = Sum(m, a, q, r2, m)
			out y
		`,
	}},
	// The transfer out begins at 2000 ns and takes 2500, so step 3 waits 1500. The
	// transfer back lasts from 5500 to 8000, and step 7 waits from 6500 on.
	swapped: {text{
		main: `
			in x float32[16,16]
			a = Relu(x)
			b = Sigmoid(a)
			c = Tanh(b)
			a.host = onnxmem::SwapOut(a)
			d = Softmax(c)
			a.back = onnxmem::SwapIn(a.host)
			e = Exp(d)
			y = Add(a.back, e)
			out y
		`,
		functions: transfers,
	}, naive{
		hosts: map[string][2]int{"a.host": {2, 6}}, link: 409_600_000, waiting: 3000,
		plain: `
			in x float32[16,16]
			a = Relu(x)
			b = Sigmoid(a)
			c = Tanh(b)
			d = Softmax(c)
			e = Exp(d)
			y = Add(a, e)
			out y
		`,
	}},
	"update before the last reader": {text{
		main: `
			in x float32[16]
			in w float32[16]
			w.new = Sub(w, x)
			y = Mul(x, w)
			out y
			out w.new
		`,
		props: map[string]string{"onnxmem.mode": "training", "onnxmem.updates": `["w=w.new"]`, "onnxmem.trainable": `["w"]`},
	}, naive{inplace: true, groups: []string{"w w.new", "x y"}}},
}

// transfers are the functions that stand for transfers to a host and back.
var transfers = map[string]string{
	"onnxmem::SwapOut": "in x\ny = Identity(x)\nout y",
	"onnxmem::SwapIn":  "in x\ny = Identity(x)\nout y",
}

// transferFunction returns a function of a model after making the encoder rewrite it, so
// that a mutation can change it.
func transferFunction(m *graph.Model, name string) *graph.Function {
	for _, f := range m.Functions {
		if f.Name == name {
			f.Span = graph.Span{}
			for _, n := range f.Body.Nodes {
				n.Span = graph.Span{}
			}
			m.Graph.Span, m.Source = graph.Span{}, nil // so that the encoder rewrites everything
			for _, n := range m.Graph.Nodes {
				n.Span = graph.Span{}
			}
			for _, f := range m.Functions {
				f.Span = graph.Span{}
			}
			return f
		}
	}
	panic("no function " + name)
}

// base returns the file and the plan that a mutation starts from.
func (m mutation) base(t testing.TB) ([]byte, *plan.Plan) {
	if b, ok := bases[m.of]; ok {
		return b.plan(t, b.x)
	}
	for _, c := range planned {
		if c.name == m.of {
			return c.plan(t, models[c.model])
		}
	}
	t.Fatalf("no plan %q", m.of)
	return nil, nil
}

// TestMutations corrupts valid plans in one way each. testdata/mutations.golden lists
// the resulting violations.
func TestMutations(t *testing.T) {
	var golden strings.Builder
	for _, c := range mutations {
		t.Run(c.name, func(t *testing.T) {
			b, p := c.base(t)
			p = clone(t, p)
			m := parse(t, b)
			if c.plan != nil {
				c.plan(p)
			}
			if c.file != nil {
				c.file(m)
				m = parse(t, encode(t, m))
				p.Model = plan.SourceOf(m)
			}
			r, err := verify.Plan(m, p, verify.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Valid || !slices.ContainsFunc(r.Violations, func(v verify.Violation) bool { return v.Code == c.code }) {
				t.Errorf("expected code %q, found %v", c.code, r)
			}
			fmt.Fprintf(&golden, "%s (%s)\n", c.name, c.of)
			for _, v := range r.Violations {
				fmt.Fprintf(&golden, "\t%s: %s\n", v.Code, v.Message)
			}
		})
	}
	hash := regexp.MustCompile("[1-9a-f][0-9a-f]{63}") // of files that the encoder writes
	checkGolden(t, "mutations", hash.ReplaceAllString(golden.String(), "HASH"))
	for _, code := range verify.Codes {
		mutated := slices.ContainsFunc(mutations, func(c mutation) bool { return c.code == code })
		if other := elsewhere[code]; mutated == (other != "") {
			t.Errorf("code %q: expected by a mutation: %t, by another test: %q: expected one of the two", code, mutated, other)
		}
	}
}

// elsewhere names the tests of codes that need more than a changed plan or file.
var elsewhere = map[string]string{
	verify.CodeLossless:  "TestPlannedFilesAreLossless",
	verify.CodeTraining:  "TestChangedStepsAreFound",
	verify.CodeRange:     "TestRangeMutations",
	verify.CodeStacking:  "TestRangeMutations",
	verify.CodeTable:     "TestRangeMutations",
	verify.CodeAlias:     "TestWrongAliases",
	verify.CodeFolded:    "TestFolded",
	verify.CodeSlices:    "TestProductsInSlices",
	verify.CodePrecision: "TestTampered",
	verify.CodeAttention: "TestTampered",
}

func clone(t testing.TB, p *plan.Plan) *plan.Plan {
	t.Helper()
	b, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	c := &plan.Plan{}
	if err := json.Unmarshal(b, c); err != nil {
		t.Fatal(err)
	}
	return c
}

// checkGolden compares a text with testdata/NAME.golden.
func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		if err := os.WriteFile(strings.TrimSuffix(path, ".golden")+".got", []byte(got), 0o644); err != nil {
			t.Error(err)
		}
		t.Errorf("%s differs (-want +got); go test ./plan/verify -update writes it:\n%s", path, d)
	}
}
