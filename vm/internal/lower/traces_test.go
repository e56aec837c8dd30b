package lower

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// traces are what one rewriter leaves on steps and tensors for the next, and how it is asked for.
// Not among them are the nodes that no task has taken, the tasks of a frame, and what those read
// and write where (task.go): these are what the table gives to every row.
var traces = strings.Fields("task Task Elsewhere DoneAt absorbed Joined joined Once Made Layout Quantized Inside Residual then")

// ofAllRows are files that are no rewriter's: what a task is, its checks, and its printed form.
var ofAllRows = strings.Fields("task.go lower_check.go inspect.go algorithm.go")

// asked are the functions of rewriters that ask for traces, and why the table cannot answer.
var asked = map[string]struct{ traces, why string }{
	"omitCopies":      {"joined", "what the row qdq made is what it works on: the row's column Of says so"},
	"copiesOf":        {"joined", "what the row qdq made is what it works on"},
	"omit":            {"joined", "what the row qdq made is what it works on"},
	"leaveOut":        {"Task joined", "it changes the places of tasks of the row qdq"},
	"prepare":         {"Layout Quantized", "its own: the kernel takes images in the layouts of its task's places"},
	"find":            {"Layout", "an image has one layout: the first row that holds it decides"},
	"neighbours":      {"Elsewhere", "nodes stay neighbours if what is between them has no kernel any more"},
	"ofChained":       {"task", "what a task makes late is not there where the plan has it"},
	"findActivations": {"then", "its own: activations are found before any kernel is prepared"},
	"fuse":            {"then", "kernels apply the activations that were found"},
	"dropCall":        {"Residual", "a kernel that is prepared again needs it"},
	"packedByAll":     {"Once", "a reader that was computed before the first run does not read again; a view of the constant does"},
}

// TestTraces: rewriters talk by tasks and places. Each function that asks for what another rewriter
// left has a reason.
func TestTraces(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	unused := maps.Clone(asked)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || slices.Contains(ofAllRows, file) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, is := d.(*ast.FuncDecl)
			if !is {
				continue
			}
			found := strings.Join(tracesIn(f), " ")
			if found == "" {
				continue
			}
			name := f.Name.Name
			row, is := asked[name]
			delete(unused, name)
			if !is || row.traces != found || row.why == "" {
				t.Errorf("%s: %s asks for %q, expected %q and a reason", file, name, found, row.traces)
			}
		}
	}
	for name := range unused {
		t.Errorf("%s asks for nothing", name)
	}
}

// tracesIn lists the traces that a function reads.
func tracesIn(f *ast.FuncDecl) []string {
	found, written := map[string]bool{}, map[ast.Expr]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, x := range n.Lhs {
				written[x] = true
			}
		case *ast.SelectorExpr:
			x, _ := n.X.(*ast.Ident)
			isType := x != nil && (x.Name == "form" || x.Name == "values")
			if slices.Contains(traces, n.Sel.Name) && !written[n] && !isType {
				found[n.Sel.Name] = true
			}
		}
		return true
	})
	return slices.Sorted(maps.Keys(found))
}
