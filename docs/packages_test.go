package docs

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// source is a folder of Go in the repository, whichever module it belongs to. Both sets hold
// folders of the repository.
type source struct {
	imports map[string]bool // of all files that are no tests, whatever their build constraints
	tests   map[string]bool // what the tests import besides
}

// sources returns the folders of Go in the repository, by name, without those of test data.
func sources(t *testing.T) map[string]*source {
	t.Helper()
	found := map[string]*source{}
	if err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && file != ".." && (strings.HasPrefix(name, ".") || slices.Contains([]string{"testdata", "third_party", "build", "bin"}, name)) {
			return fs.SkipDir
		}
		if filepath.Ext(file) != ".go" {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		folder := strings.TrimPrefix(path.Dir(filepath.ToSlash(file)), "../")
		s := found[folder]
		if s == nil {
			s = &source{map[string]bool{}, map[string]bool{}}
			found[folder] = s
		}
		to := s.imports
		if strings.HasSuffix(file, "_test.go") {
			to = s.tests
		}
		for _, i := range parsed.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			if name, ours := strings.CutPrefix(name, module); ours {
				to[name] = true
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(found) < 90 {
		t.Fatalf("found %d folders of Go, expected more", len(found))
	}
	return found
}

// page returns docs/design/packages.md.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("design/packages.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestImports: the list in docs/design/packages.md has the imports of the public packages.
func TestImports(t *testing.T) {
	written := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^    (\S+) +──▶ ?(.*)$`).FindAllStringSubmatch(page(t), -1) {
		list, _, _ := strings.Cut(m[2], "   ") // imports from other modules follow
		written[m[1]] = strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	}
	public := func(name string) bool {
		return !slices.ContainsFunc(strings.Split(name, "/"), func(s string) bool {
			return slices.Contains([]string{"internal", "examples", "docs", "beam", "cu", "browser"}, s)
		})
	}
	all := sources(t)
	for name, s := range all {
		if !public(name) || len(s.imports) == 0 && written[name] == nil {
			continue
		}
		imports := slices.Sorted(maps.Keys(s.imports))
		imports = slices.DeleteFunc(imports, func(name string) bool { return !public(name) })
		if got := written[name]; !slices.Equal(got, imports) {
			t.Errorf("imports of %s: the list says %q, its files %q", name, got, imports)
		}
	}
	for name := range written {
		if all[name] == nil {
			t.Errorf("the list has %s, which is no package", name)
		}
	}
}

// floors returns the floor of each package as docs/design/packages.md lists them.
func floors(t *testing.T) map[string]int {
	t.Helper()
	floors, above := map[string]int{}, 0
	add := func(name string, floor int) {
		if _, twice := floors[name]; twice {
			t.Errorf("%s is listed twice", name)
		}
		floors[name] = floor
	}
	for _, m := range regexp.MustCompile(`(?m)^ {4,5}([0-9]+)  (.+)$`).FindAllStringSubmatch(page(t), -1) {
		floor, _ := strconv.Atoi(m[1])
		if above > 0 && floor != above-1 {
			t.Errorf("floor %d follows floor %d", floor, above)
		}
		above = floor
		// A folder with {several, of} its own, or one package.
		for _, one := range regexp.MustCompile(`([^\s,{}]+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(m[2], -1) {
			if one[2] == "" {
				add(one[1], floor)
				continue
			}
			for name := range strings.SplitSeq(one[2], ", ") {
				add(one[1]+name, floor)
			}
		}
	}
	if above != 1 {
		t.Errorf("the lowest floor is %d, expected 1", above)
	}
	return floors
}

// TestFloors: each package stands on one floor of docs/design/packages.md, and imports only
// packages of floors below. Tests may import what they need.
func TestFloors(t *testing.T) {
	floors, all := floors(t), sources(t)
	arrows := 0
	for name, s := range all {
		if len(s.imports) == 0 && len(s.tests) > 0 && floors[name] == 0 {
			continue // tests alone
		}
		if floors[name] == 0 {
			t.Errorf("%s stands on no floor", name)
			continue
		}
		for i := range s.imports {
			if arrows++; floors[i] >= floors[name] {
				t.Errorf("%s of floor %d imports %s of floor %d", name, floors[name], i, floors[i])
			}
		}
	}
	for name := range floors {
		if all[name] == nil {
			t.Errorf("floor %d has %s, which is no package", floors[name], name)
		}
	}
	t.Logf("%d packages on %d floors, %d imports, all downward", len(floors), slices.Max(slices.Collect(maps.Values(floors))), arrows)
}

// reach is the folder below which a package of folder name may be imported, "" for all, if it
// is internal; else its own name.
func reach(name string) string {
	if name == "internal" || strings.HasPrefix(name, "internal/") {
		return ""
	}
	before, _, _ := strings.Cut(name, "/internal/")
	return before
}

// common is the lowest folder that holds both.
func common(a, b string) string {
	for a != b {
		if len(a) < len(b) {
			a, b = b, a
		}
		if a = path.Dir(a); a == "." {
			a = ""
		}
	}
	return a
}

// TestInternalPackagesLieWithTheirUsers: a package in internal/ lies below the lowest folder
// that holds those who import it, tests included. Of a package of internal/ at the top,
// docs/design/packages.md says which folders at the top these are in.
func TestInternalPackagesLieWithTheirUsers(t *testing.T) {
	users := map[string][]string{}
	for name, s := range sources(t) {
		for _, imports := range []map[string]bool{s.imports, s.tests} {
			for i := range imports {
				if !strings.HasPrefix(name+"/", i+"/") {
					users[i] = append(users[i], name)
				}
			}
		}
	}
	listed := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z/]+)` \\| ([a-z, ]+) \\|$").FindAllStringSubmatch(page(t), -1) {
		listed[m[1]] = m[2]
	}
	for name, list := range users {
		if !strings.Contains("/"+name, "/internal/") {
			continue
		}
		lowest := reach(list[0])
		folders := map[string]bool{}
		for _, user := range list {
			lowest = common(lowest, reach(user))
			first, _, _ := strings.Cut(user, "/")
			folders[first] = true
		}
		if lowest != reach(name) {
			t.Errorf("%s is used below %s alone, by %q: it can move there", name, lowest, list)
		}
		if short, top := strings.CutPrefix(name, "internal/"); top {
			if want := strings.Join(slices.Sorted(maps.Keys(folders)), ", "); listed[short] != want {
				t.Errorf("the page says that %s is used by %q: expected %q", name, listed[short], want)
			}
			delete(listed, short)
		}
	}
	for name := range listed {
		t.Errorf("the page lists internal/%s, which nobody imports", name)
	}
}
