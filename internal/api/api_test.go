package api

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// module is the path of this module.
const module = "github.com/onnxmem/onnxmem"

// public are the packages for importers.
var public = []string{
	"alloc", "autodiff", "autodiff/lora", "graph", "ilp", "models", "onnx", "ops", "passes", "plan", "plan/verify", "report", "schedule", "schedule/budget", "vm",
}

// known are the names that still show a type of an internal package. None may join
// them.
var known = map[string]string{
	"onnx.Stage":         "atomicfile.File", // files that are committed together with others of the command
	"onnx.StageExternal": "atomicfile.File",
	"schedule.Pair":      "match.Pair",
}

// exports gives the types of the public packages, from the compiler's export data.
func exports(t *testing.T) []*types.Package {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{if .Export}}{{.ImportPath}} {{.Export}}{{end}}"}
	for _, p := range public {
		args = append(args, module+"/"+p)
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	imp := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
	var list []*types.Package
	for _, p := range public {
		pkg, err := imp.Import(module + "/" + p)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, pkg)
	}
	return list
}

// TestNoInternalTypes: no exported name has a type from an internal package. An
// importer could not name it, and would see it in no documentation.
func TestNoInternalTypes(t *testing.T) {
	met := map[string]bool{}
	for _, pkg := range exports(t) {
		for _, name := range pkg.Scope().Names() {
			obj := pkg.Scope().Lookup(name)
			if !obj.Exported() {
				continue
			}
			w := walker{pkg: pkg, seen: map[types.Type]bool{}, fault: func(path, leak string) {
				key := strings.TrimPrefix(pkg.Path(), module+"/") + "." + path
				if what, is := known[key]; !is || !strings.HasSuffix(leak, "/"+what) {
					t.Errorf("%s: %s names %s, which no importer can", pkg.Path(), path, leak)
				}
				met[key] = true
			}}
			w.object(obj)
		}
	}
	for name := range known {
		if !met[name] {
			t.Errorf("%s shows no internal type any more: take it out of known", name)
		}
	}
}

// walker walks the types that an exported name shows.
type walker struct {
	pkg   *types.Package
	seen  map[types.Type]bool
	fault func(path, leak string)
}

func (w *walker) object(obj types.Object) {
	if name, ok := obj.(*types.TypeName); ok {
		w.declared(name)
		return
	}
	w.walk(obj.Name(), obj.Type())
}

// declared walks what a type of the package shows: fields, methods, or the type
// that it is an alias of.
func (w *walker) declared(name *types.TypeName) {
	if alias, ok := name.Type().(*types.Alias); ok {
		w.walk(name.Name(), alias.Rhs())
		return
	}
	w.walk(name.Name(), name.Type().Underlying())
	for _, of := range []types.Type{name.Type(), types.NewPointer(name.Type())} {
		for m := range types.NewMethodSet(of).Methods() {
			if m.Obj().Exported() && m.Obj().Pkg() == w.pkg {
				w.walk(name.Name()+"."+m.Obj().Name(), m.Obj().Type())
			}
		}
	}
}

func (w *walker) walk(path string, typ types.Type) {
	if w.seen[typ] {
		return
	}
	w.seen[typ] = true
	switch typ := typ.(type) {
	case *types.Named:
		w.named(path, typ.Obj())
		for a := range typ.TypeArgs().Types() {
			w.walk(path, a)
		}
	case *types.Alias:
		w.named(path, typ.Obj())
	case *types.Pointer:
		w.walk(path, typ.Elem())
	case *types.Slice:
		w.walk(path, typ.Elem())
	case *types.Array:
		w.walk(path, typ.Elem())
	case *types.Chan:
		w.walk(path, typ.Elem())
	case *types.Map:
		w.walk(path, typ.Key())
		w.walk(path, typ.Elem())
	case *types.Signature:
		w.walk(path, typ.Params())
		w.walk(path, typ.Results())
	case *types.Tuple:
		for v := range typ.Variables() {
			w.walk(path, v.Type())
		}
	case *types.Struct:
		for f := range typ.Fields() {
			if f.Exported() {
				w.walk(path+"."+f.Name(), f.Type())
			}
		}
	case *types.Interface:
		for m := range typ.Methods() {
			w.walk(path+"."+m.Name(), m.Type())
		}
	}
}

// named checks the name of a type.
func (w *walker) named(path string, name *types.TypeName) {
	switch pkg := name.Pkg(); {
	case pkg == nil: // error, any
	case strings.Contains("/"+pkg.Path()+"/", "/internal/"):
		w.fault(path, pkg.Path()+"."+name.Name())
	case pkg == w.pkg && !name.Exported():
		w.declared(name) // an unexported type shows what it has
	}
}

// TestDocLinks: every link in a doc comment of the public packages leads to an
// exported name.
func TestDocLinks(t *testing.T) {
	scopes := map[string]*types.Package{}
	for _, pkg := range exports(t) {
		scopes[pkg.Path()] = pkg
	}
	for _, p := range public {
		fset := token.NewFileSet()
		files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(p), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		var parsed []*ast.File
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, f)
		}
		pkg, err := doc.NewFromFiles(fset, parsed, module+"/"+p)
		if err != nil {
			t.Fatal(err)
		}
		check := func(name, text string) {
			for _, l := range links(pkg.Parser().Parse(text)) {
				path := l.ImportPath
				if path == "" {
					path = module + "/" + p
				}
				if scope := scopes[path]; scope != nil && !exported(scope, l.Recv, l.Name) {
					t.Errorf("%s: %s: the link to %s leads to no exported name", module+"/"+p, name, strings.Trim(l.Recv+"."+l.Name, "."))
				}
			}
			for _, word := range unlinked(text, pkg) {
				t.Errorf("%s: %s: [%s] is no link: expected an exported name", module+"/"+p, name, word)
			}
		}
		check("package comment", pkg.Doc)
		values := func(list []*doc.Value) {
			for _, v := range list {
				check(strings.Join(v.Names, ", "), v.Doc)
			}
		}
		functions := func(list []*doc.Func) {
			for _, f := range list {
				check(f.Name, f.Doc)
			}
		}
		values(pkg.Consts)
		values(pkg.Vars)
		functions(pkg.Funcs)
		for _, typ := range pkg.Types {
			check(typ.Name, typ.Doc)
			values(typ.Consts)
			values(typ.Vars)
			functions(typ.Funcs)
			functions(typ.Methods)
		}
	}
}

// links gives the links of a comment to names of Go.
func links(d *comment.Doc) (list []*comment.DocLink) {
	var texts func([]comment.Text)
	texts = func(all []comment.Text) {
		for _, x := range all {
			switch x := x.(type) {
			case *comment.DocLink:
				list = append(list, x)
			case *comment.Link:
				texts(x.Text)
			}
		}
	}
	var blocks func([]comment.Block)
	blocks = func(all []comment.Block) {
		for _, b := range all {
			switch b := b.(type) {
			case *comment.Paragraph:
				texts(b.Text)
			case *comment.Heading:
				texts(b.Text)
			case *comment.List:
				for _, item := range b.Items {
					blocks(item.Content)
				}
			}
		}
	}
	blocks(d.Content)
	return list
}

// unlinked gives the names in brackets that look like names of Go in prose and that
// go/doc does not take for links: they are not exported, or not there.
func unlinked(text string, pkg *doc.Package) (words []string) {
	linked := map[string]bool{}
	d := pkg.Parser().Parse(text)
	for _, l := range links(d) {
		for _, x := range l.Text {
			if plain, ok := x.(comment.Plain); ok {
				linked[strings.TrimPrefix(string(plain), "*")] = true
			}
		}
	}
	for _, b := range d.Content {
		if _, code := b.(*comment.Code); code {
			continue
		}
		p, ok := b.(*comment.Paragraph)
		if !ok {
			continue
		}
		for _, x := range p.Text {
			plain, ok := x.(comment.Plain)
			if !ok {
				continue
			}
			for _, part := range strings.Split(string(plain), "[")[1:] {
				word, _, closed := strings.Cut(part, "]")
				name := strings.TrimPrefix(word, "*")
				last := name[strings.LastIndexByte(name, '.')+1:]
				if closed && last != "" && token.IsIdentifier(last) && ast.IsExported(last) && !linked[name] {
					words = append(words, word)
				}
			}
		}
	}
	return words
}

// exported reports whether a package has an exported name, or an exported type
// with that method or field.
func exported(pkg *types.Package, recv, name string) bool {
	if recv == "" {
		if name == "" {
			return true
		}
		obj := pkg.Scope().Lookup(name)
		return obj != nil && obj.Exported()
	}
	typ := pkg.Scope().Lookup(strings.TrimPrefix(recv, "*"))
	if typ == nil || !typ.Exported() {
		return false
	}
	obj, _, _ := types.LookupFieldOrMethod(typ.Type(), true, pkg, name)
	return obj != nil && obj.Exported()
}
