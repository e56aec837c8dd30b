package passes_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layers are the files of packages below this one, from the first: each uses names of itself and of
// those before it alone.
var layers = []struct {
	folder string
	files  []string
}{
	{"internal/planner", []string{
		"rules.go", "effort.go", "region.go", "lifetime.go", "buffers.go", "alias_place.go", "chains.go", "caches.go", "updates.go",
		"problem.go", "alias_region.go", "reorder.go", "host.go", "traversal.go", "stack.go", "tiers.go", "place.go", "order.go", "casts.go",
		"share.go", "bodies.go", "alias_choose.go", "alias_share.go", "bind.go", "range_graphs.go", "range.go", "range_alias.go", "range_grid.go", "range_prove.go",
		"range_solve.go", "range_pools.go", "range_plan.go", "trial.go", "points.go",
	}},
	{"internal/folding", []string{"fold_state.go", "shapes.go", "constants.go", "folder.go", "product.go", "choose.go"}},
	{"internal/costs", []string{"device.go", "measured.go", "costs.go", "measure.go"}},
	{"internal/limits", []string{
		"task.go", "lowest.go", "casts.go", "quick.go", "search.go", "error.go", "frontier.go", "settle.go", "points.go", "slicer.go", "bound.go",
		"sliced.go", "within.go", "base.go", "kept.go", "aliases.go", "ladder.go", "weigher.go", "alone.go", "loss.go", "bases.go", "inside.go", "means.go", "limit.go", "recast.go", "weigh.go", "arena.go",
		"weigh_frontier.go", "choose.go", "loss_rows.go", "pools.go",
	}},
	{"internal/pools", []string{"moves.go", "pools.go", "prices.go"}},
	{"internal/repeat", []string{"repeat.go", "swap.go"}},
}

// ownPackages imports the packages below this one, whose types the planner embeds, and no other:
// the type checker then believes what is said of those. Each is imported once.
type ownPackages map[string]*types.Package

func (o ownPackages) Import(path string) (*types.Package, error) {
	_, folder, below := strings.Cut(path, "/passes/")
	if !below {
		return nil, errors.New("not imported")
	}
	if p := o[path]; p != nil {
		return p, nil
	}
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	check := types.Config{Importer: o, Error: func(error) {}}
	o[path], _ = check.Check(path, set, files, nil) // with errors, since it imports others
	return o[path], nil
}

// TestLayers: in the planner and in the searches that ask it, no file uses names of a later one.
func TestLayers(t *testing.T) {
	for _, layer := range layers {
		var files []string
		for _, name := range layer.files {
			files = append(files, filepath.Join(filepath.FromSlash(layer.folder), name))
			if problems := undefined(t, files); len(problems) > 0 {
				t.Errorf("%s: expected names of this file and of those before it: %v", problems[0], files)
				break
			}
		}
		all, err := filepath.Glob(filepath.Join(filepath.FromSlash(layer.folder), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range all {
			if base := filepath.Base(name); base != "doc.go" && !strings.HasSuffix(base, "_test.go") && !slices.Contains(layer.files, base) {
				t.Errorf("%s is in no list", name)
			}
		}
	}
	if len(undefined(t, []string{"planner.go"})) == 0 {
		t.Error("planner.go, which uses State, has no error: nothing is tested")
	}
}

// undefined lists what is wrong with some files of the package by themselves.
func undefined(t *testing.T, names []string) (list []string) {
	set := token.NewFileSet()
	var files []*ast.File
	imports := map[token.Position]bool{}
	for _, name := range names {
		f, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
		for _, i := range f.Imports {
			imports[set.Position(i.Path.Pos())] = true
		}
	}
	check := types.Config{Importer: ownPackages{}, Error: func(err error) {
		var e types.Error
		if errors.As(err, &e) && !imports[set.Position(e.Pos)] {
			list = append(list, set.Position(e.Pos).String()+": "+e.Msg)
		}
	}}
	check.Check("passes", set, files, nil)
	return list
}

// TestNoPassWritesOptions: the options of a State are those that were asked for. What a pass
// finds has a field of its own.
func TestNoPassWritesOptions(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	reads := 0
	ofOptions := func(e ast.Expr) bool { // x.opt, or a field of it
		for {
			s, is := e.(*ast.SelectorExpr)
			if !is {
				return false
			}
			if s.Sel.Name == "opt" {
				return true
			}
			e = s.X
		}
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if ofOptions(n) {
					reads++
				}
			case *ast.AssignStmt:
				for _, to := range n.Lhs {
					if ofOptions(to) {
						t.Errorf("%s: writes an option: expected a field of the State for what the pass found", set.Position(to.Pos()))
					}
				}
			}
			return true
		})
	}
	if reads == 0 {
		t.Error("no file reads an option: nothing is tested")
	}
}
