package ops_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// tables are the packages that have a table with a row per operator, and the type of a
// row. A kernel table for another device adds a line here.
var tables = []struct{ dir, row string }{
	{".", "Op"},
	{"../autodiff", "Rule"},
	{"../vm/internal/kernel", "Kernel"},
	{"../vm/internal/gpu", "Row"},
	{"../internal/reference", "operator"},
}

// TestEqualRowsHaveEqualFiles: every package has the row of an operator in a file of the
// same name. So a reader who has found the operator's definition also knows where its
// kernel, its gradient and its reference are.
func TestEqualRowsHaveEqualFiles(t *testing.T) {
	defined := rowFiles(t, tables[0].dir, tables[0].row)
	for _, other := range tables[1:] {
		rows := rowFiles(t, other.dir, other.row)
		if len(rows) < 30 {
			t.Errorf("%s: found %d rows of type %s, expected most operators", other.dir, len(rows), other.row)
		}
		for _, op := range slices.Sorted(maps.Keys(rows)) {
			if want, ok := defined[op]; !ok {
				t.Errorf("%s: %s has a row in %s, but ops has none", other.dir, op, rows[op])
			} else if rows[op] != want {
				t.Errorf("%s: the row of %s is in %s, expected %s as in ops", other.dir, op, rows[op], want)
			}
		}
	}
}

// constants are the names by which tables spell domains and operators.
var constants = map[string]string{
	"attr.Nchwc": attr.Nchwc, "graph.SwapDomain": graph.SwapDomain, "graph.SwapOut": graph.SwapOut, "graph.SwapIn": graph.SwapIn, "graph.PutRows": graph.PutRows, "graph.ConvWeightGrad": graph.ConvWeightGrad, "graph.FlashAttention": graph.FlashAttention, "graph.FlashAttentionGrad": graph.FlashAttentionGrad,
}

// rowFiles maps each operator of a package's tables (domain and name) to the file
// of its row. A table is a composite literal []Row{...}, which stands in a
// family{domain, []Row{...}} or is a variable that the list of families names.
func rowFiles(t *testing.T, dir, row string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	type table struct {
		file string
		rows []ast.Expr
	}
	tables := map[string]table{}     // by variable
	domains := map[string][]string{} // by variable
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.VAR {
				continue
			}
			for _, s := range decl.Specs {
				for i, value := range s.(*ast.ValueSpec).Values {
					variable := s.(*ast.ValueSpec).Names[i].Name
					ast.Inspect(value, func(n ast.Node) bool {
						lit, ok := n.(*ast.CompositeLit)
						if !ok {
							return true
						}
						if list, ok := lit.Type.(*ast.ArrayType); ok && identifier(list.Elt) == row {
							tables[variable] = table{filepath.Base(path), lit.Elts}
							return false
						}
						if len(lit.Elts) > 1 {
							if domain, ok := text(lit.Elts[0]); ok {
								in := cmp.Or(identifier(lit.Elts[1]), variable)
								domains[in] = append(domains[in], domain)
							}
						}
						return true
					})
				}
			}
		}
	}
	files := map[string]string{}
	for variable, tab := range tables {
		if len(domains[variable]) == 0 {
			t.Errorf("%s: %s is in no family", dir, variable)
		}
		for _, r := range tab.rows {
			name, ok := rowName(r)
			if !ok {
				t.Fatalf("%s: %s has a row that does not begin with the operator's name", dir, variable)
			}
			for _, domain := range domains[variable] {
				files[strings.TrimPrefix(domain+"."+name, ".")] = tab.file
			}
		}
	}
	return files
}

// identifier returns the name that an expression consists of, or "".
func identifier(e ast.Expr) string {
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// text returns the string that an expression denotes.
func text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil
	case *ast.SelectorExpr:
		s, ok := constants[identifier(e.X)+"."+e.Sel.Name]
		return s, ok
	}
	return "", false
}

// rowName returns the operator of a row: the string at its beginning.
func rowName(row ast.Expr) (string, bool) {
	lit, ok := row.(*ast.CompositeLit)
	if !ok || len(lit.Elts) == 0 {
		return "", false
	}
	if pair, ok := lit.Elts[0].(*ast.KeyValueExpr); ok {
		return text(pair.Value)
	}
	return text(lit.Elts[0])
}
