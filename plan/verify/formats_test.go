package verify_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
	"github.com/onnxmem/onnxmem/plan/verify/internal/caches"
	"github.com/onnxmem/onnxmem/plan/verify/internal/folding"
	"github.com/onnxmem/onnxmem/plan/verify/internal/regions"
	"github.com/onnxmem/onnxmem/plan/verify/internal/training"
	"github.com/onnxmem/onnxmem/plan/verify/internal/unchanged"
)

// page returns a page of docs/formats.
func page(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "formats", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestFormats checks the worked example of docs/formats/example.md: its plan is valid for
// its model, and the model's metadata are those on the page.
func TestFormats(t *testing.T) {
	page := page(t, "example.md")
	block := func(begin string) string {
		_, rest, found := strings.Cut(page, "\n"+begin+"\n")
		text, _, ended := strings.Cut(rest, "\n```\n")
		if !found || !ended {
			t.Fatalf("no block %q", begin)
		}
		return text
	}
	p, err := plan.Read(strings.NewReader(block("```json")))
	if err != nil {
		t.Fatal(err)
	}

	// First the source, in its own order; then the planned file.
	_, example, _ := strings.Cut(page, "\n```\n")
	example, _, _ = strings.Cut(example, "\n```\n")
	m := text{main: example}.build(t)
	if _, err := ops.Infer(m, ops.Options{}); err != nil {
		t.Fatal(err)
	}
	source := make([]string, len(m.Graph.Nodes))
	for i, n := range m.Graph.Nodes {
		source[i] = n.Name
	}
	order := m.Graph.Nodes[:0:0]
	for _, step := range p.Steps {
		for _, n := range m.Graph.Nodes {
			if n.Name == step.Name {
				order = append(order, n)
			}
		}
	}
	m.Graph.Nodes = order
	m.Graph.Link()
	for i, step := range p.ProgramOrder.Steps {
		if p.Steps[step].Name != source[i] {
			t.Errorf("program order, place %d: %q, expected %q", i, p.Steps[step].Name, source[i])
		}
	}
	nv := naive{t: t, m: m, p: p}
	nv.annotate()
	m = parse(t, encode(t, m))
	p.Model = plan.SourceOf(m)
	r, err := verify.Plan(m, p, verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Valid || r.Schedule != "proven" || r.Placement != "proven" {
		t.Errorf("schedule %s, placement %s\n%v", r.Schedule, r.Placement, r)
	}
	for _, n := range m.Graph.Nodes {
		offset, _ := n.Prop("onnxmem.offset")
		if line := "| " + n.Name + " | `" + offset + "` |\n"; !strings.Contains(page, line) {
			t.Errorf("the page lacks %q", line)
		}
	}
}

// ofProvers are the codes of the provers that are packages of their own.
var ofProvers = map[string]string{"caches": caches.Code, "folding": folding.Code, "regions": regions.Code, "unchanged": unchanged.Code, "training": training.Code}

// TestCodes: verify.Codes has every constant of the package whose name begins with Code, in
// their order, and nothing else.
func TestCodes(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "report.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for k, name := range spec.Names {
			if !strings.HasPrefix(name.Name, "Code") || name.Name == "Codes" {
				continue
			}
			switch x := spec.Values[k].(type) {
			case *ast.BasicLit:
				code, err := strconv.Unquote(x.Value)
				if err != nil {
					t.Fatalf("%s: %v", name.Name, err)
				}
				want = append(want, code)
			case *ast.SelectorExpr:
				want = append(want, ofProvers[x.X.(*ast.Ident).Name])
			}
		}
		return true
	})
	if len(want) == 0 || !slices.Equal(verify.Codes, want) {
		t.Errorf("Codes has %q, expected the constants %q", verify.Codes, want)
	}
}

// TestCodesAndClaims: docs/formats/verify.md has every code of a violation and every field
// that may be claimed.
func TestCodesAndClaims(t *testing.T) {
	page := page(t, "verify.md")
	for _, code := range verify.Codes {
		if !strings.Contains(page, "`"+code+"`") {
			t.Errorf("the page lacks code %q", code)
		}
	}
	_, claims, _ := strings.Cut(page, "## What is claimed")
	for _, name := range verify.Claims {
		if !strings.Contains(claims, "`"+name+"`") {
			t.Errorf("the page lacks %q, a possible claim", name)
		}
	}
}
