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
var traces = strings.Fields("task Task Elsewhere DoneAt single absorbed Joined Once Made Layout Quantized copiesBytes copiesResult Inside Residual then")

// ofAllRows are files that are no rewriter's: what a task is, its checks, and its printed form.
var ofAllRows = strings.Fields("task.go lower_check.go inspect.go algorithm.go")

// asked are the functions of rewriters that ask for traces, and why the table cannot answer.
var asked = map[string]struct{ traces, why string }{
	"joinQuantized":    {"task", "two products may share the node of a weight: the first has it"},
	"omitCopies":       {"Joined copiesResult single", "what the row qdq made is what it works on"},
	"copiesOf":         {"Joined copiesResult single", "what the row qdq made is what it works on"},
	"copiesResult":     {"copiesBytes", "what the row qdq made is what it works on"},
	"leaveOut":         {"Joined task", "it changes the places of tasks of the row qdq"},
	"list":             {"Quantized Task", "tasks read and write longer than nodes do, and bytes take a fourth of a place"},
	"omit":             {"Joined single task", "what the row qdq made is what it works on"},
	"holdNHWC":         {"Joined Layout", "a product of bytes has operands of its own, in the layouts of the node's"},
	"convolvesNHWC":    {"Joined", "what the row qdq made reads and writes NHWC"},
	"quantizedCall":    {"Joined", "what the row qdq made reads and writes NHWC"},
	"nhwcImages":       {"Joined copiesBytes", "what the row qdq made reads and writes NHWC"},
	"plainReals":       {"Layout Quantized", "an image has one layout, and bytes have none in blocks"},
	"hold":             {"task", "a task that the row qdq made takes its places in the new layout"},
	"computeOnce":      {"single", "a product of bytes may cover the node"},
	"joinResiduals":    {"Layout single", "only kernels of NCHW16c add an image"},
	"convolution":      {"single", "a convolution that adds one image adds no other"},
	"groupable":        {"single", "a node is in one task"},
	"links":            {"Inside Layout Quantized", "the kernel for groups takes reals, in the order of the elements that the operators see"},
	"movedWrites":      {"Task", "a task that runs early writes over what the plan still has there"},
	"neighbours":       {"Elsewhere", "nodes stay neighbours if what is between them has no kernel any more"},
	"meets":            {"Task", "a task that runs early writes over what the plan still has there"},
	"ofChained":        {"task", "what a task makes late is not there where the plan has it"},
	"findActivations":  {"then", "its own: activations are found before any kernel is prepared"},
	"activation":       {"Task single", "the node to apply follows the last one of the task, and is in none"},
	"fuse":             {"then", "kernels apply the activations that were found"},
	"prepare":          {"Elsewhere Joined Task", "it prepares the kernels of tasks"},
	"prepareQuantized": {"Joined Quantized copiesBytes task", "it prepares the kernels of tasks"},
	"dropCall":         {"Joined Residual task", "kernels of tasks read their calls when they run"},
	"computeAgain":     {"Once", "constants that fold-weights computed are what it works on"},
	"computeOutput":    {"Made", "constants that fold-weights computed are what it works on"},
	"releasePacked":    {"Made Once", "constants that fold-weights computed are what it works on"},
	"packedByAll":      {"Once", "constants that fold-weights computed are what it works on"},
	"readInFile":       {"Joined absorbed", "it is no rewriter: constants that kernels of tasks read"},
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
