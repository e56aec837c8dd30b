package docs

import (
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/onnxmem/onnxmem/internal/marks"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

const module = "github.com/onnxmem/onnxmem/"

// TestFilesAreThere: the files and folders of the repository that pages name exist, and
// so do the targets of their links.
func TestFilesAreThere(t *testing.T) {
	top, _ := filepath.Glob("../*.md")
	folders := folders(t)
	for _, page := range slices.Concat(pages(t), top) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("`([a-zA-Z0-9_./-]+)`").FindAllStringSubmatch(string(text), -1) {
			first, _, deep := strings.Cut(m[1], "/")
			if deep && folders[first] && !exists(path.Join("..", m[1])) {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`).FindAllStringSubmatch(string(text), -1) {
			if !exists(path.Join(path.Dir(page), m[1])) {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
			}
		}
	}
}

// pages returns the paths of all pages, those in folders, too.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	if err := filepath.WalkDir(".", func(file string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(file) == ".md" {
			found = append(found, filepath.ToSlash(file))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

// TestHeadingsAreThere: each link to a part of a page names a heading of it.
func TestHeadingsAreThere(t *testing.T) {
	heading := regexp.MustCompile(`(?m)^#+ (.+)$`)
	link := regexp.MustCompile(`\]\(([^)#:]*)#([^)]+)\)`)
	anchors := map[string]map[string]bool{}
	top, _ := filepath.Glob("../*.md")
	links := 0
	for _, page := range slices.Concat(pages(t), top) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			to := page
			if m[1] != "" {
				to = path.Join(path.Dir(page), m[1])
			}
			if path.Ext(to) != ".md" {
				continue
			}
			if anchors[to] == nil {
				anchors[to] = map[string]bool{}
				target, err := os.ReadFile(to)
				if err != nil {
					t.Errorf("%s: %v", page, err)
				}
				for _, h := range heading.FindAllStringSubmatch(string(target), -1) {
					anchors[to][anchor(h[1])] = true
				}
			}
			if links++; !anchors[to][m[2]] {
				t.Errorf("%s links to %s#%s: no such heading", page, to, m[2])
			}
		}
	}
	if links < 50 {
		t.Errorf("%d links to headings", links)
	}
}

// anchor is the name by which links know a heading.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// folders returns the folders at the top of the repository that hold sources.
func folders(t *testing.T) map[string]bool {
	t.Helper()
	entries, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, e := range entries {
		if e.IsDir() && e.Name() != "build" && e.Name() != "bin" {
			found[e.Name()] = true
		}
	}
	return found
}

// exists reports whether a file of that name exists. A package's name may precede a
// declaration in it, as in vm.New.
func exists(name string) bool {
	if _, err := os.Stat(name); err == nil {
		return true
	}
	dir, base := path.Split(name)
	if ident := regexp.MustCompile(`^([a-z]+)\.[A-Z]`).FindStringSubmatch(base); ident != nil {
		_, err := os.Stat(dir + ident[1])
		return err == nil
	}
	return false
}

// TestNamedTestsExist: the tests and benchmarks that pages run with go test exist.
func TestNamedTestsExist(t *testing.T) {
	found := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)`)
	names := map[string][]string{} // by folder
	if err := filepath.WalkDir("..", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		source, err := os.ReadFile(file)
		for _, m := range found.FindAllStringSubmatch(string(source), -1) {
			dir := path.Dir(filepath.ToSlash(file))
			names[dir] = append(names[dir], m[1])
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range regexp.MustCompile("go test \\./(\\S+)([^`;]*)").FindAllStringSubmatch(string(text), -1) {
			for _, m := range regexp.MustCompile(`-(?:run|bench) ('[^']+'|\S+)`).FindAllStringSubmatch(command[2], -1) {
				pattern, _, _ := strings.Cut(strings.Trim(m[1], "'"), "/") // subtests follow the slash
				for alternative := range strings.SplitSeq(pattern, "|") {
					name, err := regexp.Compile(alternative)
					if err != nil {
						t.Errorf("%s: %s: %v", page, command[0], err)
					} else if alternative != "^$" && !slices.ContainsFunc(names["../"+command[1]], name.MatchString) {
						t.Errorf("%s: %s: no test or benchmark matches %q", page, command[0], alternative)
					}
				}
			}
		}
	}
}

// TestPassesAreListed: docs/architecture.md lists the passes, in order.
func TestPassesAreListed(t *testing.T) {
	text, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range passes.Default() {
		names = append(names, "`"+p.Name+"`")
	}
	if want := strings.Join(names, ", "); !strings.Contains(string(text), want) {
		t.Errorf("docs/architecture.md does not list the passes: expected %s", want)
	}
}

// TestRewritersAreListed: docs/design/lowering.md lists the rewriters of vm in the order in
// which they run, with where, and says which of them are needed.
func TestRewritersAreListed(t *testing.T) {
	text, err := os.ReadFile("design/lowering.md")
	if err != nil {
		t.Fatal(err)
	}
	var table, listed []string
	for _, r := range vm.Lowering() {
		table = append(table, fmt.Sprintf("%s on %s, needed %t, rounds %t", r.Name, r.On, !r.Optional, r.Rounds != ""))
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` (\\(needed\\) )?\\|.*\\| (CPU|GPU|both) \\| (yes|no)").FindAllStringSubmatch(string(text), -1) {
		listed = append(listed, fmt.Sprintf("%s on %s, needed %t, rounds %t", m[1], m[3], m[2] != "", m[4] == "no"))
	}
	if !slices.Equal(table, listed) {
		t.Errorf("docs/design/lowering.md lists %q, vm.Lowering %q", listed, table)
	}
}

// TestTablesSayHowTheyAreMade: the line above each table of docs/results names its
// generator in bench/results.py, or says that it was made by hand, and how.
func TestTablesSayHowTheyAreMade(t *testing.T) {
	source, err := os.ReadFile("../bench/results.py")
	if err != nil {
		t.Fatal(err)
	}
	unused := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^    Table\("([^"]+)"`).FindAllStringSubmatch(string(source), -1) {
		unused[m[1]] = true
	}
	generators := maps.Clone(unused)
	pages, err := filepath.Glob("results/*.md")
	if err != nil || len(pages) == 0 || len(generators) == 0 {
		t.Fatalf("%d pages, %d generators (%v)", len(pages), len(generators), err)
	}
	generated := regexp.MustCompile("^\\*By `make results ARGS=([^`]+)`.*: `.+\\*$")
	byHand := regexp.MustCompile("^\\*By hand: .*`.+; [0-9]{4}-[0-9]{2}-[0-9]{2}.*\\*$")
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(page), ".md")
		if title, _, _ := strings.Cut(string(text), "\n"); !strings.HasPrefix(title, "# ") {
			t.Errorf("%s has no title", page)
		}
		for block := range blocks(string(text)) {
			m := generated.FindStringSubmatch(block.above)
			switch {
			case m != nil && !generators[m[1]]:
				t.Errorf("%s: bench/results.py has no generator for table %s", page, m[1])
			case m != nil && !strings.HasPrefix(m[1], name+"/"):
				t.Errorf("%s: table %s is of another page", page, m[1])
			case m == nil && !byHand.MatchString(block.above):
				t.Errorf("%s: expected a line that says how the table is made, found %q above %q", page, block.above, block.head)
			}
			if m != nil {
				delete(unused, m[1])
			}
		}
	}
	for name := range unused {
		t.Errorf("bench/results.py generates %s, which no page has", name)
	}
}

// block is a table of a page: its first line, and the paragraph above it.
type block struct{ above, head string }

// blocks returns the tables of a page.
func blocks(text string) iter.Seq[block] {
	return func(yield func(block) bool) {
		above := ""
		for paragraph := range strings.SplitSeq(text, "\n\n") {
			paragraph = strings.TrimSpace(paragraph)
			head, _, _ := strings.Cut(paragraph, "\n")
			if strings.HasPrefix(head, "|") && !yield(block{above, head}) {
				return
			}
			above = paragraph
		}
	}
}

// Each target of make that a page names stands in the Makefile.
func TestMakeTargetsExist(t *testing.T) {
	text, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z]+):`).FindAllStringSubmatch(string(text), -1) {
		targets[m[1]] = true
	}
	named := regexp.MustCompile("`make (?:-s )?([a-z]+)")
	found := 0
	for _, page := range append(pages(t), "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if found++; !targets[m[1]] {
				t.Errorf("%s: make has no target %s", page, m[1])
			}
		}
	}
	if found == 0 {
		t.Error("no page names a target of make")
	}
}

// TestIndexOfFormats: docs/formats.md links to each page of docs/formats.
func TestIndexOfFormats(t *testing.T) {
	text, err := os.ReadFile("formats.md")
	if err != nil {
		t.Fatal(err)
	}
	list, err := filepath.Glob("formats/*.md")
	if err != nil || len(list) == 0 {
		t.Fatalf("%d pages (%v)", len(list), err)
	}
	for _, page := range list {
		if !strings.Contains(string(text), "]("+filepath.ToSlash(page)) {
			t.Errorf("docs/formats.md does not link to %s", page)
		}
	}
}

// TestSharingIsListed: docs/formats/sharing.md has the operators of package ops that have
// views, in-place results or parts, each in its table, and no others.
func TestSharingIsListed(t *testing.T) {
	text, err := os.ReadFile("formats/sharing.md")
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]func(op *ops.Op) bool{
		"Views":            func(op *ops.Op) bool { return op.Views != nil },
		"In-place results": func(op *ops.Op) bool { return op.Inplace != nil },
		"Parts":            func(op *ops.Op) bool { return op.Ranges != nil },
	}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		if has[title] == nil {
			t.Fatalf("section %q: expected one of %v", title, slices.Sorted(maps.Keys(has)))
		}
		listed := map[string]bool{}
		for row := range strings.SplitSeq(body, "\n") {
			cells := strings.Split(row, "|")
			if len(cells) < 4 {
				continue
			}
			domain, names := "", cells[1]
			if len(cells) == 5 { // a table by domain
				domain, names = strings.TrimSpace(cells[1]), cells[2]
			}
			for _, name := range strings.Split(names, ",") {
				d := domain
				if other, op, apart := strings.Cut(strings.TrimSpace(name), " `"); apart { // com.microsoft `Op`
					d, name = other, op
				}
				if name = strings.Trim(name, " `"); ops.Lookup(d, name) != nil {
					listed[d+" "+name] = true
				} else if strings.Contains(names, "`") && !strings.Contains(name, " ") {
					t.Errorf("%s: no operator %q of domain %q", title, name, d)
				}
			}
		}
		for _, domain := range ops.Domains() {
			for _, name := range ops.Names(domain) {
				if want := has[title](ops.Lookup(domain, name)); want != listed[domain+" "+name] {
					t.Errorf("docs/formats/sharing.md: %s: %q of domain %q: listed %t, expected %t (go test ./ops -run TestOperators -update adds operators)", title, name, domain, listed[domain+" "+name], want)
				}
			}
		}
		delete(has, title)
	}
	if len(has) > 0 {
		t.Errorf("the page lacks %v", slices.Sorted(maps.Keys(has)))
	}
}

// TestKeysAreDescribed: every key of plans and of what commands print with --json stands in
// a page of docs/formats.
func TestKeysAreDescribed(t *testing.T) {
	var described strings.Builder
	for _, page := range pages(t) {
		if !strings.HasPrefix(page, "formats") {
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		described.Write(text)
	}
	tag, keys := regexp.MustCompile(`json:"([a-z0-9_]+)`), 0
	for _, pattern := range []string{"../plan/*.go", "../plan/verify/*.go", "../cmd/onnxmem/*.go", "../internal/optimize/*.go", "../passes/*.go", "../autodiff/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files (%v)", pattern, len(files), err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range tag.FindAllStringSubmatch(string(source), -1) {
				if keys++; !strings.Contains(described.String(), "`"+m[1]+"`") {
					t.Errorf("%s: key %q is on no page of docs/formats", file, m[1])
				}
			}
		}
	}
	if keys < 300 {
		t.Errorf("found %d keys, expected more", keys)
	}
}

// TestGroupsAreListed: docs/formats/gradients.md has the tables of package marks.
func TestGroupsAreListed(t *testing.T) {
	text, err := os.ReadFile("formats/gradients.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range marks.Groups {
		want := "    " + g.Name + "\n"
		for _, n := range g.Nodes {
			want += fmt.Sprintf("      %s = %s(%s)", n.Role, n.Op, strings.Join(n.In, ", "))
			for _, a := range n.Attrs {
				want += fmt.Sprintf(" %s=%d", a.Name, a.Int)
			}
			want += "\n"
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("formats/gradients.md lacks\n%s", want)
		}
	}
}

// TestRuntimeRowsAreListed: docs/formats/onnxruntime.md has the rows of ops.Runtimes: those
// of both runtimes, and those that onnxruntime-arena adds.
func TestRuntimeRowsAreListed(t *testing.T) {
	text, err := os.ReadFile("formats/onnxruntime.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{} // runtime, domain and operator
	for row := range strings.SplitSeq(string(text), "\n") {
		cells := strings.Split(row, "|")
		if len(cells) != 5 || !strings.Contains(cells[2], "`") {
			continue
		}
		runtime := strings.Trim(cells[1], " `")
		for _, m := range regexp.MustCompile("(com\\.microsoft )?`(\\w+)`").FindAllStringSubmatch(cells[2], -1) {
			listed[runtime+" "+strings.TrimSpace(m[1])+" "+m[2]] = true
		}
	}
	both := ops.LookupRuntime(ops.ONNXRuntime)
	for _, r := range ops.LookupRuntime(ops.ONNXRuntimeArena).Rows {
		runtime := ops.ONNXRuntimeArena
		if both.Row(r.Domain, r.Name) != nil {
			runtime = "both"
		}
		key := runtime + " " + r.Domain + " " + r.Name
		if !listed[key] {
			t.Errorf("docs/formats/onnxruntime.md lacks %q (go test ./ops -run TestOperators -update adds operators)", key)
		}
		delete(listed, key)
	}
	for key := range listed {
		t.Errorf("docs/formats/onnxruntime.md has %q, which package ops has not", key)
	}
}
