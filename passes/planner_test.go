package passes_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"testing"
)

// plannerFiles are the files of the planner: what gives a graph an order, offsets and bounds.
var plannerFiles = []string{
	"trial.go", "rules.go", "effort.go", "region.go", "share.go", "updates.go", "caches.go", "bodies.go", "order.go", "traversal.go",
	"place.go", "host.go", "tiers.go", "slice_limits.go", "stack.go", "alias_place.go", "alias_region.go",
}

// noPackages imports nothing: the type checker then believes what is said of packages.
type noPackages struct{}

func (noPackages) Import(string) (*types.Package, error) {
	return nil, errors.New("not imported")
}

// TestPlannerKnowsNoPass: the files of the planner use no name of another file of the package,
// above all neither State nor Options. So they are a package by themselves, whose functions
// depend on what they are given.
func TestPlannerKnowsNoPass(t *testing.T) {
	undefined := func(names []string) (list []string) {
		set := token.NewFileSet()
		var files []*ast.File
		for _, name := range names {
			f, err := parser.ParseFile(set, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		imports := map[token.Position]bool{}
		for _, f := range files {
			for _, i := range f.Imports {
				imports[set.Position(i.Path.Pos())] = true
			}
		}
		check := types.Config{Importer: noPackages{}, Error: func(err error) {
			var e types.Error
			if errors.As(err, &e) && !imports[set.Position(e.Pos)] {
				list = append(list, set.Position(e.Pos).String()+": "+e.Msg)
			}
		}}
		check.Check("passes", set, files, nil)
		return list
	}
	for _, problem := range undefined(plannerFiles) {
		t.Errorf("%s: expected a planner that uses its own files alone: %v", problem, plannerFiles)
	}
	if len(undefined([]string{"planner.go"})) == 0 {
		t.Error("planner.go, which uses State, has no error: nothing is tested")
	}
}
