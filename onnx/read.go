package onnx

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/internal/oserr"
	"github.com/onnxmem/onnxmem/internal/readable"
)

// ReadOptions are the options of Open and Parse.
type ReadOptions struct {
	// AllowMissingWeights reads a model whose external data are missing. Planning
	// needs no weights.
	AllowMissingWeights bool
}

// File is an open ONNX file: the model and its mapping.
type File struct {
	*graph.Model
	Path string

	// Missing lists missing external data, if that is allowed.
	Missing []string

	mapped  *mapped.File
	partial *mapped.Partial // of ReadAt
}

// Open maps the file at path and decodes it; "-" reads standard input, and a pipe
// is read to its end. Errors about the file's content are of type *Error. The
// caller closes the File when it needs neither the model nor anything made from
// it any more. If another process truncates or overwrites the file before that,
// functions that read it fail with an error that says so.
//
// If a process of this module was killed while it replaced the file and its
// companions, such as its plan, Open first completes the replacement.
func Open(path string, opt ReadOptions) (*File, error) {
	if path == "-" {
		b, err := io.ReadAll(os.Stdin)
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		return parse(&graph.Source{Name: "standard input", Dir: ".", Bytes: b}, path, nil, opt)
	}
	if err := atomicfile.Settle(path); err != nil {
		return nil, err
	}
	f, err := readable.Open(path)
	if err != nil {
		return nil, notFound(path, err)
	}
	fail := func(err error) (*File, error) {
		f.Close()
		return nil, err
	}
	refuse := func(format string, args ...any) (*File, error) {
		e := graph.Errorf(format, args...)
		e.File = path
		return fail(e)
	}
	switch {
	case f.IsPipe():
		b, err := io.ReadAll(f)
		f.Close()
		if err != nil {
			return nil, notFound(path, err)
		}
		return parse(&graph.Source{Name: path, Dir: filepath.Dir(path), Bytes: b}, path, nil, opt)
	case f.Info.Size() == 0:
		return refuse("is empty, expected an ONNX model")
	}
	m, err := mapped.Map(f.File, path)
	if err != nil {
		return fail(err)
	}
	src := &graph.Source{Name: path, Dir: filepath.Dir(path), Bytes: m.Bytes, File: f.File, Check: m.Check}
	file, err := parse(src, path, m, opt)
	if err = mapped.Unchanged(src, err); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return file, nil
}

// notFound is the error of a file that cannot be opened or read. A file that does
// not exist is a refused input.
func notFound(path string, err error) error {
	e := graph.Errorf("%w", oserr.Reason(err))
	var other *readable.KindError
	if errors.As(err, &other) {
		e = graph.Errorf("is %s, expected an ONNX file", other.Kind)
	}
	e.File = path
	return e
}

// Parse decodes a model from memory. name is its name in errors.
func Parse(name string, b []byte) (*graph.Model, error) {
	f, err := parse(&graph.Source{Name: name, Dir: ".", Bytes: b}, name, nil, ReadOptions{AllowMissingWeights: true})
	if err != nil {
		return nil, err
	}
	return f.Model, nil
}

// Close unmaps the file. The model must not be used afterwards.
func (f *File) Close() error {
	if f.Source == nil {
		return nil
	}
	err := f.mapped.Close()
	if f.partial != nil {
		f.partial.Close()
	}
	f.Source.Bytes, f.Source.File, f.Source.Check = nil, nil, nil
	return err
}

func parse(src *graph.Source, path string, from *mapped.File, opt ReadOptions) (_ *File, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	r := &reader{name: src.Name, b: src.Bytes}
	m, err := r.model()
	if err != nil {
		return nil, r.named(err)
	}
	m.Source = src
	f := &File{Model: m, Path: path, mapped: from}
	if f.Missing, err = checkExternal(m, opt.AllowMissingWeights); err != nil {
		return nil, r.named(err)
	}
	return f, nil
}

// named adds the file's name to an error that lacks it.
func (r *reader) named(err error) error {
	var e *Error
	if errors.As(err, &e) && e.File == "" {
		e.File = r.name
	}
	return err
}

// maxOpsets limits the opset imports of a model or function: each node looks its
// domain up in the list.
const maxOpsets = 1000

// maxOpset is far above any future version of ai.onnx; custom domains may use any
// version.
const maxOpset = 1000

// model decodes a ModelProto.
func (r *reader) model() (*graph.Model, error) {
	const what = "ModelProto"
	m := &graph.Model{}
	whole := graph.Span{Len: int64(len(r.b))}
	var main graph.Span
	var functions []graph.Span
	err := r.walk(whole, what, func(f field) error {
		switch f.num {
		case 1:
			m.IRVersion = int64(f.value)
			return r.want(f, protowire.VarintType, what)
		case 2, 3, 7, 8, 14, 20, 25:
			if err := r.message(f, what); err != nil {
				return err
			}
		}
		switch f.num {
		case 2:
			m.Producer = r.text(f.payload)
		case 3:
			m.Producer += " " + r.text(f.payload)
		case 7:
			if !main.IsZero() {
				return r.errorAt(f.span.Off, "the model has two graphs: expected one graph")
			}
			main = f.payload
		case 8:
			return r.opset(f, &m.Opsets)
		case 14:
			p, err := r.prop(f.payload, "metadata_props")
			m.Props = append(m.Props, p)
			return err
		case 25:
			functions = append(functions, f.payload)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if main.IsZero() {
		return nil, r.errorAt(-1, "no graph: expected an ONNX model, found %d bytes without one", len(r.b))
	}
	if m.Graph, err = r.graph(main, nil); err != nil {
		return nil, err
	}
	seen := map[[3]string]bool{}
	for _, at := range functions {
		f, err := r.function(at)
		if err != nil {
			return nil, err
		}
		id := [3]string{f.Domain, f.Name, f.Overload}
		if seen[id] {
			return nil, r.errorAt(at.Off, "function %s of domain %s is defined twice", quoted(f.Name), quoted(f.Domain))
		}
		seen[id] = true
		m.Functions = append(m.Functions, f)
	}
	return m, nil
}

// opset decodes an OperatorSetIdProto.
func (r *reader) opset(f field, list *[]graph.Opset) error {
	const what = "opset_import"
	var o graph.Opset
	if err := r.message(f, what); err != nil {
		return err
	}
	err := r.walk(f.payload, what, func(f field) error {
		switch f.num {
		case 1:
			if err := r.message(f, what); err != nil {
				return err
			}
			o.Domain = domain(r.text(f.payload))
			return r.utf8(f, o.Domain)
		case 2:
			o.Version = int64(f.value)
			return r.want(f, protowire.VarintType, what)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if o.Version < 0 || o.Domain == "" && (o.Version == 0 || o.Version > maxOpset) {
		return r.errorAt(f.span.Off, "opset_import of domain %q has version %d: expected one from 1 to %d", o.Domain, o.Version, maxOpset)
	}
	if len(*list) == maxOpsets {
		return r.errorAt(f.span.Off, "more than %d opset imports", maxOpsets)
	}
	for _, have := range *list {
		if have.Domain == o.Domain && have.Version != o.Version {
			return r.errorAt(f.span.Off, "domain %q is imported twice, with versions %d and %d", o.Domain, have.Version, o.Version)
		}
	}
	*list = append(*list, o)
	return nil
}

// function decodes a FunctionProto.
func (r *reader) function(at graph.Span) (*graph.Function, error) {
	const what = "FunctionProto"
	fn := &graph.Function{Span: at}
	s := newScope(nil)
	s.g.Span = at
	var p graphParts
	err := r.walk(at, what, func(f field) error {
		switch f.num {
		case 1, 4, 5, 6, 7, 9, 10, 11, 12, 13:
			if err := r.message(f, what); err != nil {
				return err
			}
		}
		text := r.text
		switch f.num {
		case 1:
			fn.Name = text(f.payload)
		case 4:
			p.functionInputs = append(p.functionInputs, text(f.payload))
		case 5:
			p.functionOutput = append(p.functionOutput, text(f.payload))
		case 6:
			fn.Attrs = append(fn.Attrs, text(f.payload))
		case 7:
			p.nodes = append(p.nodes, f.payload)
		case 9:
			return r.opset(f, &fn.Opsets)
		case 10:
			fn.Domain = domain(text(f.payload))
		case 11:
			a := &graph.Attr{Span: f.payload}
			graphs, err := r.attributeFields(a)
			if err == nil && len(graphs) > 0 {
				err = r.errorAt(f.span.Off, "the default of attribute %s of a function is a graph: expected a plain value", quoted(a.Name))
			}
			fn.Defaults = append(fn.Defaults, a)
			return err
		case 12:
			v, err := r.valueInfo(f.payload)
			p.values = append(p.values, v)
			return err
		case 13:
			fn.Overload = text(f.payload)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if fn.Name == "" {
		return nil, r.errorAt(at.Off, "a function without a name: expected one")
	}
	fn.Body = s.g
	if err := r.fill(s, &p); err != nil {
		var e *Error
		if errors.As(err, &e) && e.Node == "" {
			e.Node = fmt.Sprintf("function %s", quoted(fn.Name))
		}
		return nil, err
	}
	return fn, nil
}
