package verify

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// withBodies has a body and a local function, whose nodes are listed backwards.
const withBodies = `ir 10
opset 21
opset local 1
graph g
in p bool[]
in x float32[64]
r = If(p) then_branch=graph {
	a = Exp(x)
	b = Sigmoid(a)
	c = Mul(a, b)
	out c
} else_branch=graph {
	d = Neg(x)
	out d
}
y = local::F(r)
out y

function local::F {
opset 21
in u
out w
w = Mul(s, t)
t = Sigmoid(s)
s = Exp(u)
}
`

// tamperings are ways to make a graph of its reader's that contradicts itself: a verifier that
// believed it would free a tensor too early, or never count it.
var tamperings = map[string]func(g *graph.Graph){
	"a reader is lost": func(g *graph.Graph) {
		t := g.Tensors[g.Nodes[0].Outputs[0]]
		t.Readers = t.Readers[1:]
	},
	"a reader that reads something else": func(g *graph.Graph) {
		last := len(g.Nodes) - 1
		g.Nodes[last].Inputs = g.Nodes[last].Inputs[1:]
	},
	"another maker":     func(g *graph.Graph) { g.Tensors[g.Nodes[1].Outputs[0]].Maker = 0 },
	"a size below zero": func(g *graph.Graph) { g.Tensors[g.Nodes[0].Outputs[0]].Bytes = -64 },
}

// inner returns the model of withBodies, inferred, with its first body and its function's body.
func inner(t *testing.T) (m *graph.Model, body, function *graph.Graph) {
	t.Helper()
	m, err := graph.Parse("m", withBodies)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ops.Infer(m, ops.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, n := range m.Graph.Nodes {
		if n.Semantics.Call != nil {
			function = n.Semantics.Call.Body
		}
		for _, a := range n.Bodies() {
			if a.Name == "then_branch" {
				body = a.Graph
			}
		}
	}
	return m, body, function
}

// TestInnerProblemsAreHeld: what is derived for a local function, and for a body at a point of
// ranges, is held to what the core expects, as that of the main graph is.
func TestInnerProblemsAreHeld(t *testing.T) {
	verifierOf := func(m *graph.Model) *verifier {
		p := &plan.Plan{Alignment: 64, Sharing: plan.Sharing{Views: true, Inplace: true}}
		return &verifier{Subject: &subject.Subject{Model: m, Plan: p}, peaks: map[*graph.Call]int64{}}
	}
	atPoint := func(v *verifier, g *graph.Graph) int64 {
		l := &stackedGraph{where: "in subgraph 0, ", certificates: []plan.RangeCertificate{{Kind: plan.CertificateCut, Steps: []int{2}}}}
		return l.bound(v, g, make([]int64, len(g.Nodes)), 1<<20)
	}
	inFunction := func(v *verifier, g *graph.Graph) int64 { return v.peakOf(g, functionBody) }
	m, body, function := inner(t)
	v := verifierOf(m)
	if bound, peak := atPoint(v, body), inFunction(v, function); bound != 512 || peak != 512 || v.err != nil {
		t.Fatalf("a bound of %d bytes and a peak of %d (%v): expected 512 and 512", bound, peak, v.err)
	}
	for what, change := range tamperings {
		_, body, function := inner(t)
		function = listed(function)
		for _, c := range []struct {
			where string
			g     *graph.Graph
			do    func(v *verifier, g *graph.Graph) int64
		}{{"in subgraph 0, ", body, atPoint}, {"in a local function, ", function, inFunction}} {
			change(c.g)
			v := verifierOf(m)
			if c.do(v, c.g); v.err == nil || !strings.HasPrefix(v.err.Error(), c.where+"what was to be proven contradicts itself") {
				t.Errorf("%s%s: found %v: expected that no verdict rests on it", c.where, what, v.err)
			}
		}
	}
}

// TestOnlyHeldProblemsAreDecided: orders and bounds are asked of the core in held.go alone, where
// a problem is held to what the core expects.
func TestOnlyHeldProblemsAreDecided(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if x, is := n.(*ast.SelectorExpr); is && slices.Contains([]string{"NewBounds", "Simulate"}, x.Sel.Name) {
				if found++; path != "held.go" {
					t.Errorf("%s: expected %s in held.go alone", path, x.Sel.Name)
				}
			}
			return true
		})
	}
	if found != 2 {
		t.Errorf("found %d calls: expected two", found)
	}
}
