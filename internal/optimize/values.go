package optimize

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/npy"
	"github.com/onnxmem/onnxmem/internal/readable"
	"github.com/onnxmem/onnxmem/ops"
)

// Values are the values of inputs that --value gives. They hold the content of
// files, so that a job means the same to another process.
type Values map[string]graph.Literal

// Decode parses one NAME=VALUE and adds it.
func (v *Values) Decode(ctx *kong.DecodeContext) error {
	t, err := ctx.Scan.PopValue("NAME=VALUE")
	if err != nil {
		return err
	}
	name, text, ok := strings.Cut(fmt.Sprint(t.Value), "=")
	if !ok || name == "" {
		return fmt.Errorf("expected NAME=VALUE, found %q", t.Value)
	}
	l, err := parseValue(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if *v == nil {
		*v = Values{}
	}
	(*v)[name] = l
	return nil
}

// Binds is the flag that binds a dimension or an input, "" if none does.
func (f *ModelFlags) Binds() string {
	switch {
	case len(f.Dim) > 0:
		return "--dim"
	case len(f.Value) > 0:
		return "--value"
	}
	return ""
}

// parseValue parses a number, nested lists of numbers, or @FILE.
func parseValue(text string) (graph.Literal, error) {
	if file, is := strings.CutPrefix(text, "@"); is {
		if file == "" {
			return graph.Literal{}, fmt.Errorf("the name of a file is missing: expected @FILE.npy, found %q", text)
		}
		return readValue(file)
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var x any
	if err := d.Decode(&x); err != nil || d.More() {
		return graph.Literal{}, fmt.Errorf("expected a number, true, false, a list such as [1,2,3], or @FILE.npy, found %q", text)
	}
	if _, list := x.([]any); !list {
		n, err := number(x)
		return graph.Literal{Data: []json.Number{n}}, err
	}
	l := graph.Literal{Shape: []int64{}, Data: []json.Number{}}
	return l, flatten(&l, x, 0)
}

// flatten appends the numbers of nested lists, whose lists at one depth must have
// one length.
func flatten(l *graph.Literal, x any, depth int) error {
	list, is := x.([]any)
	if !is {
		if depth < len(l.Shape) {
			return fmt.Errorf("a number stands where a list of %d is expected", l.Shape[depth])
		}
		n, err := number(x)
		l.Data = append(l.Data, n)
		return err
	}
	if depth == len(l.Shape) {
		if len(l.Data) > 0 {
			return fmt.Errorf("a list stands where a number is expected")
		}
		l.Shape = append(l.Shape, int64(len(list)))
	}
	if l.Shape[depth] != int64(len(list)) {
		return fmt.Errorf("lists of %d and of %d items: expected a list for each row, all of one length", l.Shape[depth], len(list))
	}
	for _, item := range list {
		if err := flatten(l, item, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// number is a JSON number or bool as the text of a number.
func number(x any) (json.Number, error) {
	switch x := x.(type) {
	case json.Number:
		return x, nil
	case bool:
		if x {
			return "1", nil
		}
		return "0", nil
	}
	return "", fmt.Errorf("expected numbers, true or false, found %v", x)
}

// readValue reads a .npy file.
func readValue(file string) (graph.Literal, error) {
	refused := func(format string, args ...any) error {
		e := graph.Errorf(format, args...)
		e.File = file
		return e
	}
	f, err := readable.Open(file)
	if err != nil {
		return graph.Literal{}, refused("%w", err)
	}
	defer f.Close()
	const widest = 8 // bytes of an element
	a, err := npy.Read(f, widest*ops.FoldLimit)
	if err != nil {
		return graph.Literal{}, refused("%w", err)
	}
	types := map[string]graph.DType{
		"<f4": graph.Float32, "<f8": graph.Float64, "|b1": graph.Bool, "|i1": graph.Int8, "|u1": graph.Uint8,
		"<i2": graph.Int16, "<u2": graph.Uint16, "<i4": graph.Int32, "<u4": graph.Uint32, "<i8": graph.Int64, "<u8": graph.Uint64,
	}
	d := &graph.Data{Type: types[a.Descr], Dims: []int64{}, Raw: a.Data}
	for _, n := range a.Shape {
		d.Dims = append(d.Dims, int64(n))
	}
	if d.Type == graph.Undefined {
		return graph.Literal{}, refused("elements of type %q: expected integers, bool, float32 or float64", a.Descr)
	}
	return graph.LiteralOf(d), nil
}
