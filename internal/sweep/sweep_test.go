package sweep

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMakefileRunsThem: "make sweeps" runs each test that asks this package whether it may, and
// the tests that it names exist.
func TestMakefileRunsThem(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?m)^SWEEPS := \^Test\((\S+)\)\$\$$`).FindSubmatch(makefile)
	packages := regexp.MustCompile(`(?m)^SWEEP_PACKAGES :=((?: \./\S+)+)$`).FindSubmatch(makefile)
	if list == nil || packages == nil {
		t.Fatal("the Makefile names no tests, or no packages")
	}
	named, dirs := strings.Split(string(list[1]), "|"), strings.Fields(string(packages[1]))
	found := map[string]bool{}
	if err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "build" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := "./" + strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../../")
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			name := strings.TrimPrefix(f.Name.Name, "Test")
			if slices.Contains(dirs, dir) {
				found[name] = true
			}
			if asks(f) && !(slices.Contains(named, name) && slices.Contains(dirs, dir)) {
				t.Errorf("%s: make sweeps does not run %s", path, f.Name.Name)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, name := range named {
		if !found[name] {
			t.Errorf("make sweeps names Test%s: no such test", name)
		}
	}
}

// asks reports whether a function calls this package.
func asks(f *ast.FuncDecl) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			x, ok := s.X.(*ast.Ident)
			found = found || ok && x.Name == "sweep"
		}
		return true
	})
	return found
}
