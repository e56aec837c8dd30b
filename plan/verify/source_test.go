package verify_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// rewritten is a change of one node of a file that leaves sizes and lifetimes as they may be.
type rewritten struct {
	what string
	do   func(n *graph.Node)
}

// rewrites lists changes of node i of a graph: each operand by another tensor of its type, the
// operator by another of its kind, each number among its attributes by another one.
func rewrites(g *graph.Graph, i int) (list []rewritten) {
	n := g.Nodes[i]
	for k, t := range n.Inputs {
		for other := len(g.Tensors) - 1; t >= 0 && other >= 0; other-- {
			x := g.Tensors[other]
			if graph.TensorID(other) != t && int(x.Maker) < i && x.Type.String() == g.Tensors[t].Type.String() {
				list = append(list, rewritten{fmt.Sprintf("input %d is %q", k, x.Name), func(n *graph.Node) { n.Inputs[k] = graph.TensorID(other) }})
				break
			}
		}
	}
	for _, kind := range [][]string{{"Relu", "Sigmoid", "Tanh", "Exp", "Neg"}, {"Add", "Sub", "Mul", "Div"}} {
		if at := slices.Index(kind, n.Op); at >= 0 {
			op := kind[(at+1)%len(kind)]
			list = append(list, rewritten{"operator " + op, func(n *graph.Node) { n.Op = op }})
		}
	}
	for k, a := range n.Attrs {
		if a.Type == graph.AttrInt || a.Type == graph.AttrFloat {
			list = append(list, rewritten{"attribute " + a.Name, func(n *graph.Node) {
				b := *a
				b.Int, b.Float, b.Span = a.Int+1, a.Float+1, graph.Span{}
				if a.Int == 1 { // it may be a flag
					b.Int = 0
				}
				n.Attrs[k] = &b
			}})
		}
	}
	return list
}

// anew makes the encoder write a node, and all that have bodies, anew.
func anew(m *graph.Model, n *graph.Node) {
	n.Span = graph.Span{}
	for _, g := range plan.Graphs(m.Graph) {
		for _, x := range g.Nodes {
			if len(x.Bodies()) == 0 {
				continue
			}
			x.Span = graph.Span{}
			for _, a := range x.Attrs {
				a.Span = graph.Span{}
			}
		}
	}
}

// besideSource verifies a file with the plan of another one, but for the digest of the model, which is
// its own, beside the source.
func besideSource(from *graph.Model, file []byte, p *plan.Plan) (*verify.Report, error) {
	m, err := onnx.Parse("out.onnx", file)
	if err != nil {
		return nil, err
	}
	q := *p
	q.Model = plan.SourceOf(m)
	return verify.Plan(m, &q, verify.Options{Source: from})
}

// TestRewrittenFilesAreFound: with the source, a file whose plan is right, but whose nodes compute
// something else, is not valid: each node of the main graph and of bodies is compared, whatever the
// plan added, moved or folded, and so is each initializer.
func TestRewrittenFilesAreFound(t *testing.T) {
	found := 0 // files that differ from their source in nothing but what is compared with it
	for _, name := range []string{
		"views and in-place results", "the default order of another runtime", "ranges of dimensions", "ranges of dimensions with bodies",
		"subgraphs", "a loop", "functions", "below a limit", "a host", "caches", "a state that a loop carries", "aliases", "several pools", "buffers that move between pools",
		"a product that reads a constant as it lies", "folded constants",
	} {
		t.Run(name, func(t *testing.T) {
			c := realCase(t, name)
			source, file, p := planReal(t, c.x, c.opt)
			from := parse(t, source)
			valid := func(file []byte) (*verify.Report, error) { return besideSource(from, file, p) }
			if r, err := valid(bytes.Clone(file)); err != nil || !r.Valid {
				t.Fatalf("%v %v: expected a valid plan", r, err)
			}
			tried := 0
			try := func(what string, file []byte) {
				r, err := valid(file)
				tried++
				switch {
				case err != nil:
				case r.Valid:
					t.Errorf("%s: valid, with %v claimed", what, r.Claimed)
				case slices.ContainsFunc(r.Violations, func(v verify.Violation) bool { return v.Code == verify.CodeLossless }):
					found++
				}
			}
			inferred := func() *graph.Model {
				m := parse(t, file)
				dims := map[string]int64{}
				for name, d := range p.Dims {
					if !d.Assumed && !d.Follows {
						dims[name] = d.Value
					}
				}
				if _, err := ops.Infer(m, ops.Options{Dims: dims, Values: p.Values, SpareDims: true}); err != nil {
					t.Fatal(err)
				}
				return m
			}
			for k, g := range plan.Graphs(inferred().Graph) {
				for i := range g.Nodes {
					for j, c := range rewrites(g, i) {
						m := inferred()
						h := plan.Graphs(m.Graph)[k]
						rewrites(h, i)[j].do(h.Nodes[i])
						anew(m, h.Nodes[i])
						try(fmt.Sprintf("graph %d, %s: %s", k, h.Label(graph.NodeID(i)), c.what), encode(t, m))
					}
				}
				for _, x := range g.Tensors {
					if x.Data != nil && x.Data.External == nil && len(x.Data.Payload) == 1 && x.Data.Payload[0].Len > 0 {
						other := bytes.Clone(file)
						other[x.Data.Payload[0].Off] ^= 1
						try(fmt.Sprintf("graph %d, initializer %q", k, x.Name), other)
					}
				}
			}
			t.Logf("%d files", tried)
		})
	}
	if found == 0 {
		t.Errorf("no file had a violation of code %s", verify.CodeLossless)
	}
}
