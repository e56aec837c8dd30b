package ops_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/ops"
)

// aspects is what the tree has of operators: files by operator, named as in rowFiles.
type aspects struct {
	meaning, kernel, gpu, gradient, reference map[string]string
	expansion, rowmap, boxer, link, caches    map[string]string
	torch, blocks, without                    map[string]string
}

// survey reads the tables of all packages.
func survey(t *testing.T) *aspects {
	t.Helper()
	a := &aspects{
		meaning: rowFiles(t, ".", "Op"), kernel: rowFiles(t, "../vm/internal/kernel", "Kernel"), gpu: rowFiles(t, "../vm/internal/gpu", "Row"),
		gradient: rowFiles(t, "../autodiff", "Rule"), reference: rowFiles(t, "../internal/reference", "operator"),
	}
	a.expansion = keysOfCalls(t, "../autodiff", "expansionsOf")
	a.rowmap = namesOfCalls(t, "../plan/verify/internal/rowmap", "register")
	a.boxer = keysOf(t, "../vm/internal/values/sequence.go", "Boxers")
	a.caches = keysOf(t, "../passes/internal/kv/rules.go", "rules")
	a.without = reasonsOf(t, "../autodiff/without.go")
	a.blocks, a.link = map[string]string{}, map[string]string{}
	for key, file := range a.kernel {
		name, text := key[strings.LastIndexByte(key, '.')+1:], read(t, "../vm/internal/kernel/"+file)
		for column, list := range map[string]map[string]string{"Blocks": a.blocks, "Link": a.link} {
			if regexp.MustCompile(`\{Name: "` + name + `"[^\n]* ` + column + `: `).MatchString(text) {
				list[key] = file
			}
		}
	}
	a.torch = map[string]string{}
	for _, file := range []string{"torchgraph.py", "torchrules.py", "corners.py"} {
		for _, m := range regexp.MustCompile(`"([A-Z]\w+)"`).FindAllStringSubmatch(read(t, "../crosscheck/"+file), -1) {
			if a.torch[m[1]] == "" {
				a.torch[m[1]] = file
			}
		}
	}
	return a
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// parsed calls f for each node of the files that match a pattern.
func parsed(t *testing.T, pattern string, f func(file string, n ast.Node) bool) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatal(pattern, err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool { return f(filepath.Base(path), n) })
	}
}

// qualified is the key of an operator in a domain.
func qualified(domain, name string) string { return strings.TrimPrefix(domain+"."+name, ".") }

// keysOfCalls maps the keys of a map that is an argument of calls of a function to their file;
// the argument before is the domain.
func keysOfCalls(t *testing.T, dir, function string) map[string]string {
	list := map[string]string{}
	parsed(t, dir+"/*.go", func(file string, n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is || identifier(call.Fun) != function || len(call.Args) != 2 {
			return true
		}
		domain, _ := text(call.Args[0])
		for _, e := range call.Args[1].(*ast.CompositeLit).Elts {
			if name, is := text(e.(*ast.KeyValueExpr).Key); is {
				list[qualified(domain, name)] = file
			}
		}
		return true
	})
	return list
}

// namesOfCalls maps the strings among the arguments of calls of a function to their file.
func namesOfCalls(t *testing.T, dir, function string) map[string]string {
	list := map[string]string{}
	parsed(t, dir+"/*.go", func(file string, n ast.Node) bool {
		if call, is := n.(*ast.CallExpr); is && identifier(call.Fun) == function {
			for _, e := range call.Args[1:] {
				if name, is := text(e); is {
					list[name] = file
				}
			}
		}
		return true
	})
	return list
}

// keysOf maps the keys of a variable to its file. A key of two strings is a domain and a name.
func keysOf(t *testing.T, path, variable string) map[string]string {
	list := map[string]string{}
	parsed(t, path, func(file string, n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || spec.Names[0].Name != variable {
			return true
		}
		for _, e := range spec.Values[0].(*ast.CompositeLit).Elts {
			switch key := e.(*ast.KeyValueExpr).Key.(type) {
			case *ast.CompositeLit:
				domain, _ := text(key.Elts[0])
				name, _ := text(key.Elts[1])
				list[qualified(domain, name)] = file
			default:
				name, _ := text(key)
				list[name] = file
			}
		}
		return true
	})
	if len(list) == 0 {
		t.Fatalf("%s has no %s", path, variable)
	}
	return list
}

// reasonsOf reads the operators without a gradient, with the names of the reasons: noReals is
// "no reals". A reason without a name is that of one operator.
func reasonsOf(t *testing.T, path string) map[string]string {
	list := map[string]string{}
	parsed(t, path, func(_ string, n ast.Node) bool {
		row, is := n.(*ast.CompositeLit)
		if !is || len(row.Elts) != 3 {
			return true
		}
		domain, is := text(row.Elts[0])
		names, lists := row.Elts[2].(*ast.CompositeLit)
		if !is || !lists {
			return true
		}
		reason := "its own reason"
		if name := identifier(row.Elts[1]); name != "" {
			reason = strings.ToLower(regexp.MustCompile("[A-Z]").ReplaceAllString(name, " $0"))
		}
		for _, e := range names.Elts {
			if name, is := text(e); is {
				list[qualified(domain, name)] = reason
			}
		}
		return false
	})
	return list
}

var update = flag.Bool("update", false, "write docs/operators.md, and add operators to pages of docs/formats")

// TestOperators: every operator has a cell for each aspect, which is a file or a reason, and
// docs/operators.md says so.
func TestOperators(t *testing.T) {
	a := survey(t)
	files := map[string][]string{} // by file of ops: rows
	cells := map[string]string{}   // by aspect and operator
	each(func(domain string, op *ops.Op) {
		key, row := qualified(domain, op.Name), []string{}
		for _, c := range columns {
			cell := c.cell(a, key, domain, op)
			if cell == "" {
				t.Errorf("%s: %s: expected %s; or a reason among missing in ops/matrix_cells_test.go", key, c.name, strings.ReplaceAll(fills[c.name], "FILE", a.meaning[key]))
			}
			row, cells[c.name+" "+key] = append(row, cell), cell
		}
		files[a.meaning[key]] = append(files[a.meaning[key]], fmt.Sprintf("| %s | %s |", key, strings.Join(row, " | ")))
	})
	for aspect, list := range missing {
		for reason, names := range list {
			for _, key := range names {
				if got := cells[aspect+" "+key]; got != reason {
					t.Errorf("%s: %s: has the reason %q, but its cell is %q: the reason goes", key, aspect, reason, got)
				}
			}
		}
	}
	var b strings.Builder
	b.WriteString(operatorsHead)
	for _, c := range columns {
		fmt.Fprintf(&b, "- **%s**: %s\n", c.name, c.doc)
	}
	b.WriteString(operatorsReasons)
	head, rule := "| operator |", "| --- |"
	for _, c := range columns {
		head, rule = head+" "+c.name+" |", rule+" --- |"
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n%s\n%s\n%s\n", strings.TrimSuffix(file, ".go"), links(file), head, rule, strings.Join(files[file], "\n"))
	}
	const path = "../docs/operators.md"
	if *update {
		for _, l := range listings(t) {
			l.complete(t, a)
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, path) != b.String() {
		t.Errorf("%s says something else: go test ./ops -run TestOperators -update", path)
	}
}

// links are the files of a family.
func links(file string) string {
	var list []string
	for _, dir := range []string{"ops", "vm/internal/kernel", "vm/internal/gpu", "autodiff", "internal/reference"} {
		if _, err := os.Stat(filepath.Join("..", dir, file)); err == nil {
			list = append(list, fmt.Sprintf("[%s](../%s/%s)", dir, dir, file))
		}
	}
	return strings.Join(list, ", ")
}
