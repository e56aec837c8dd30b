package verify_test

import (
	"cmp"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

const (
	module      = "github.com/onnxmem/onnxmem/"
	auditorPage = "../../docs/auditor.md"

	// maxCoreLines is what an auditor can read at one sitting or two.
	maxCoreLines = 2000
)

// frame are the files that call the provers and report what they find.
var frame = []string{"doc.go", "verify.go", "provers.go", "below.go", "report.go", "claims.go", "keys.go", "internal/subject/subject.go", "internal/subject/names.go", "internal/subject/poll.go"}

// sources lists the files of a folder and of those below, without tests.
func sources(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d.IsDir() && d.Name() == "coretest" {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			list = append(list, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// lines counts the lines of some files.
func lines(t *testing.T, files []string) (n int) {
	t.Helper()
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		n += strings.Count(string(b), "\n")
	}
	return n
}

// imported lists the packages of this module that some files import.
func imported(t *testing.T, files []string) (list []string) {
	t.Helper()
	for _, f := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range parsed.Imports {
			if path, _ := strconv.Unquote(i.Path.Value); strings.HasPrefix(path, module) && !slices.Contains(list, path) {
				list = append(list, path)
			}
		}
	}
	return list
}

// closure adds to some packages of this module all that these import.
func closure(t *testing.T, list []string) []string {
	t.Helper()
	for k := 0; k < len(list); k++ {
		files, err := filepath.Glob("../../" + strings.TrimPrefix(list[k], module) + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		files = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
		for _, path := range imported(t, files) {
			if !slices.Contains(list, path) {
				list = append(list, path)
			}
		}
	}
	return list
}

// TestCoreIsSmall: the core can be read whole, and knows nothing else of this module. Nothing
// that verify imports is of the planner.
func TestCoreIsSmall(t *testing.T) {
	core := sources(t, "internal/core")
	if n := lines(t, core); n > maxCoreLines {
		t.Errorf("the core has %d lines: expected at most %d", n, maxCoreLines)
	}
	if list := imported(t, core); len(list) > 0 {
		t.Errorf("the core imports %v: expected nothing of this module", list)
	}
	for _, path := range closure(t, imported(t, sources(t, "."))) {
		for _, other := range []string{"schedule", "alloc", "passes", "vm", "autodiff", "internal/cost"} {
			if rest, is := strings.CutPrefix(path, module+other); is && (rest == "" || rest[0] == '/') {
				t.Errorf("verify imports %s, by some way: expected nothing of the planner", path)
			}
		}
	}
}

// filesOf are the files of each prover.
func filesOf(t *testing.T) map[string][]string {
	t.Helper()
	list := map[string][]string{}
	for _, p := range verify.Provers() {
		for _, pattern := range p.Files {
			found, err := filepath.Glob(pattern)
			if err != nil || len(found) == 0 {
				t.Errorf("prover %q: no file %s (%v)", p.Name, pattern, err)
			}
			found = slices.DeleteFunc(found, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
			list[p.Name] = append(list[p.Name], found...)
		}
	}
	return list
}

// TestEachFileHasOneProver: a file belongs to one prover, to the frame or to the core. So
// whoever wants to know what stands behind a claim reads that prover's files.
func TestEachFileHasOneProver(t *testing.T) {
	owners := map[string]int{}
	for _, f := range slices.Concat(frame, sources(t, "internal/core")) {
		owners[f]++
	}
	for _, files := range filesOf(t) {
		for _, f := range files {
			owners[filepath.ToSlash(f)]++
		}
	}
	for _, f := range sources(t, ".") {
		if strings.HasPrefix(f, "bare/") {
			continue // of bare problems, not of plans
		}
		if owners[f] != 1 {
			t.Errorf("%s: it belongs to %d of the provers, the frame and the core: expected one", f, owners[f])
		}
		delete(owners, f)
	}
	for f := range owners {
		t.Errorf("%s: no such file", f)
	}
}

// paths lists the fields of a JSON type, with those of the structs within.
func paths(of reflect.Type, prefix string, list []string) []string {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return list
	}
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			list = paths(f.Type, prefix, list)
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		list = append(list, prefix+name)
		list = paths(f.Type, prefix+name+".", list)
	}
	return list
}

// TestEachFieldHasAProver: some prover answers for each field of a plan, or the field is
// claimed. The provers name no other fields.
func TestEachFieldHasAProver(t *testing.T) {
	known := paths(reflect.TypeFor[plan.Plan](), "", nil)
	var answered []string
	for _, p := range verify.Provers() {
		for _, f := range p.Fields {
			if !slices.Contains(known, f) {
				t.Errorf("prover %q: %s is no field of a plan", p.Name, f)
			}
			if slices.Contains(answered, f) {
				t.Errorf("%s: expected one prover", f)
			}
			answered = append(answered, f)
			top, _, _ := strings.Cut(f, ".")
			answered = append(answered, top+".")
		}
	}
	for _, f := range known {
		if !strings.Contains(f, ".") && !slices.Contains(answered, f) && !slices.Contains(answered, f+".") && !slices.Contains(verify.Claims, f) {
			t.Errorf("%s: no prover, and not claimed", f)
		}
	}
}

// counter states numbers of lines. What the page says stays as long as it is at least the
// number, and at most a quarter and 100 above it: the page need not change with each line.
type counter struct {
	t      *testing.T
	stated map[string]string // by the first column of a row: the column of lines
}

func newCounter(t *testing.T, page string, column int) counter {
	c := counter{t, map[string]string{}}
	for row := range strings.SplitSeq(page, "\n") {
		if cells := strings.Split(row, " | "); len(cells) > column {
			c.stated[strings.TrimPrefix(cells[0], "| ")] = strings.TrimSuffix(cells[column], " |")
		}
	}
	return c
}

func (c *counter) atMost(row string, files []string) string {
	n := lines(c.t, files)
	if said, err := strconv.Atoi(strings.ReplaceAll(c.stated[row], ",", "")); err == nil && n <= said && said <= n+n/4+100 {
		return c.stated[row]
	}
	n = (n + n/20 + 99) / 100 * 100
	if n >= 1000 {
		return fmt.Sprintf("%d,%03d", n/1000, n%1000)
	}
	return strconv.Itoa(n)
}

// trusted are the packages that an auditor has to believe or to read, besides the provers.
var trusted = []struct{ path, why string }{
	{"plan/verify/internal/core", "decides: lifetimes, places, loads, bounds"},
	{"plan/verify", "the files that call the provers and report"},
	{"ops", "what an operator means: types, views, in-place results, which bytes it only moves"},
	{"ops/attr", "attributes of operators"},
	{"graph", "nodes, tensors, types; topological orders; which nodes have effects"},
	{"onnx", "reads the file"},
	{"plan", "reads the plan; figures that are impossible on their own"},
	{"internal/strictjson", "reads JSON without leniency"},
	{"internal/constant", "reads constants, for folded ones and for slices"},
	{"internal/reference", "computes nodes, for folded constants"},
}

// tables are those of the page.
func tables(t *testing.T, page string) string {
	var b strings.Builder
	packages, proofs := newCounter(t, page, 1), newCounter(t, page, 5)
	b.WriteString("## What is trusted\n\n| package | lines, at most | for |\n| --- | ---: | --- |\n")
	for _, p := range trusted {
		files, err := filepath.Glob("../../" + p.path + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files (%v)", p.path, err)
		}
		files = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
		if p.path == "plan/verify" {
			files = frame
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p.path, packages.atMost("`"+p.path+"`", files), p.why)
	}
	b.WriteString("\n## The provers\n\n| prover | for the fields | assumes | reduces to | files | lines, at most |\n| --- | --- | --- | --- | --- | ---: |\n")
	of := filesOf(t)
	for _, p := range verify.Provers() {
		name := p.Name
		if p.Within != "" {
			name += ", within " + p.Within
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", name, cmp.Or(inCode(p.Fields), "·"), p.Assumes, p.Reduces, cmp.Or(inCode(p.Files), "·"), proofs.atMost(name, of[p.Name]))
	}
	return b.String()
}

func inCode(list []string) string {
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = "`" + x + "`"
	}
	return strings.Join(out, ", ")
}

// TestAuditorPage: the tables of the page for auditors are those of the code.
func TestAuditorPage(t *testing.T) {
	const from, to = "<!-- tables: written by go test ./plan/verify -update -->\n", "<!-- end of tables -->\n"
	b, err := os.ReadFile(auditorPage)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := strings.Cut(string(b), from)
	_, tail, ok2 := strings.Cut(rest, to)
	if !ok1 || !ok2 {
		t.Fatalf("%s: expected %q and %q", auditorPage, from, to)
	}
	want := head + from + "\n" + tables(t, string(b)) + "\n" + to + tail
	if want == string(b) {
		return
	}
	if !*update {
		t.Fatalf("%s: its tables differ from the code's: go test ./plan/verify -run TestAuditorPage -update writes them", auditorPage)
	}
	if err := os.WriteFile(auditorPage, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
