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

	"github.com/onnxmem/onnxmem/ops"
)

// TestNamesAreLeftToOps: outside this package, code asks columns what an operator is, and not
// its name. What compares names nevertheless is counted, by file, with the reason: a file with
// one comparison more, or one less, changes the table. Of those by ==, which ask for one operator
// outside of a switch, there are no more than mostEqual.
func TestNamesAreLeftToOps(t *testing.T) {
	const mostEqual = 40
	equal := 0
	total := counted(t, "compares", named, func(file *ast.File) int {
		n, m := comparedNames(file)
		equal += m
		return n
	})
	if equal > mostEqual {
		t.Errorf("%d names are compared by ==, expected at most %d", equal, mostEqual)
	}
	t.Logf("%d comparisons in %d files, of which %d by ==", total, len(named), equal)
}

// TestListsAreLeftToOps: a list of operators outside this package, which a new operator could
// want to be in, is counted in the same way.
func TestListsAreLeftToOps(t *testing.T) {
	known := map[string]bool{}
	each(func(_ string, op *ops.Op) { known[op.Name] = true })
	total := counted(t, "lists", listed, func(file *ast.File) int { return listedNames(file, known) })
	t.Logf("%d lists in %d files", total, len(listed))
}

// counted holds what is found in each file to a table, and returns the sum.
func counted(t *testing.T, does string, table map[string]comparisons, count func(*ast.File) int) (total int) {
	t.Helper()
	found := map[string]int{}
	for _, dir := range []string{"passes", "plan", "vm", "internal", "autodiff", "schedule", "alloc"} {
		err := filepath.WalkDir(filepath.Join("..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			if n := count(file); n > 0 {
				found[filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))] = n
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(found)) {
		if why := table[file]; why.count != found[file] {
			t.Errorf("%s %s names of operators at %d places, expected %d: ask a column of ops.Op, or say in this table why none can answer", file, does, found[file], why.count)
		}
	}
	for file, why := range table {
		if total += why.count; found[file] == 0 {
			t.Errorf("%s %s no names of operators any more, but is in the table", file, does)
		}
		if why.reason == "" {
			t.Errorf("%s has no reason", file)
		}
	}
	return total
}

// listedNames counts the literals of a file with several operators as elements or as keys. A
// name may have its domain before it.
func listedNames(file *ast.File, known map[string]bool) (n int) {
	ast.Inspect(file, func(x ast.Node) bool {
		list, is := x.(*ast.CompositeLit)
		if !is {
			return true
		}
		names := 0
		for _, e := range list.Elts {
			if pair, is := e.(*ast.KeyValueExpr); is {
				e = pair.Key
			}
			if s, is := text(e); is && known[s[strings.LastIndexByte(s, '.')+1:]] {
				names++
			}
		}
		if names > 1 {
			n++
		}
		return true
	})
	return n
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
