package docs

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/passes"
)

var update = flag.Bool("update", false, "write docs/excludes.md")

// TestExcludes: docs/excludes.md has the rows of passes/excludes.go.
func TestExcludes(t *testing.T) {
	const path = "excludes.md"
	want := excludes()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what passes/excludes.go says: write it with go test ./docs -run Excludes -update", path)
	}
}

func excludes() string {
	flags := map[string]string{}
	for _, f := range passes.Features() {
		flags[f.Name] = "`" + f.Flag + "`"
	}
	var b strings.Builder
	fmt.Fprint(&b, `# What excludes what

The options of planning that cannot be used together, and those that need another. The tables are those of [passes/excludes.go](../passes/excludes.go), which the command and the library read; a test writes this page. Every other pair works: a test plans, verifies and runs it.

## Options that exclude each other

| option | and | why not |
| --- | --- | --- |
`)
	for _, x := range passes.Exclusions() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", flags[x.A], flags[x.B], x.Why)
	}
	fmt.Fprint(&b, `
## Options that need another

| option | needs | why |
| --- | --- | --- |
`)
	type need struct{ b, why string }
	var order []need
	of := map[need][]string{} // the options with the same need
	for _, x := range passes.Needs() {
		var any []string
		for _, name := range x.B {
			any = append(any, flags[name])
		}
		n := need{strings.Join(any, " or "), x.Why}
		if !slices.Contains(order, n) {
			order = append(order, n)
		}
		of[n] = append(of[n], flags[x.A])
	}
	for _, n := range order {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", strings.Join(of[n], ", "), n.b, n.why)
	}
	return b.String()
}
