package ops_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestNamesAreLeftToOps: outside this package, code asks columns what an operator is, and not
// its name. What compares names nevertheless is counted, by file, with the reason: a file with
// one comparison more, or one less, changes the table. Of those by ==, which ask for one operator
// outside of a switch, there are no more than mostEqual.
func TestNamesAreLeftToOps(t *testing.T) {
	const mostEqual = 40
	found, equal := map[string]int{}, 0
	for _, dir := range []string{"passes", "plan", "vm", "internal", "autodiff", "schedule", "alloc"} {
		err := filepath.WalkDir(filepath.Join("..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			n, m := comparedNames(file)
			if equal += m; n > 0 {
				found[filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))] = n
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(found)) {
		if why := named[file]; why.count != found[file] {
			t.Errorf("%s compares %d names of operators, expected %d: ask a column of ops.Op, or say in this table why none can answer", file, found[file], why.count)
		}
	}
	total := 0
	for file, why := range named {
		if total += why.count; found[file] == 0 {
			t.Errorf("%s compares no name of an operator any more, but is in the table", file)
		}
		if why.reason == "" {
			t.Errorf("%s has no reason", file)
		}
	}
	if equal > mostEqual {
		t.Errorf("%d names are compared by ==, expected at most %d", equal, mostEqual)
	}
	t.Logf("%d comparisons in %d files, of which %d by ==", total, len(named), equal)
}

// comparedNames counts the names with which a file compares the operator of a node, by == and
// != and as cases of a switch, and how many of these by ==.
func comparedNames(file *ast.File) (n, equal int) {
	isOp := func(e ast.Expr) bool {
		s, is := e.(*ast.SelectorExpr)
		return is && s.Sel.Name == "Op"
	}
	isName := func(e ast.Expr) bool {
		l, is := e.(*ast.BasicLit)
		return is && l.Kind == token.STRING && l.Value != `""`
	}
	ast.Inspect(file, func(x ast.Node) bool {
		switch x := x.(type) {
		case *ast.BinaryExpr:
			if (x.Op == token.EQL || x.Op == token.NEQ) && (isOp(x.X) && isName(x.Y) || isOp(x.Y) && isName(x.X)) {
				if n++; x.Op == token.EQL {
					equal++
				}
			}
		case *ast.SwitchStmt:
			if x.Tag == nil || !isOp(x.Tag) {
				break
			}
			for _, c := range x.Body.List {
				for _, e := range c.(*ast.CaseClause).List {
					if isName(e) {
						n++
					}
				}
			}
		}
		return true
	})
	return n, equal
}
