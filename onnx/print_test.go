package onnx_test

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/internal/nodetests"
	"github.com/onnxmem/onnxmem/onnx"
)

// printsAgain prints a model, reads it again, and compares: the text, which has the elements,
// and everything else that the graph says of the file.
func printsAgain(t *testing.T, name string, m *graph.Model, most int64) {
	t.Helper()
	var text, again strings.Builder
	opt := graph.PrintOptions{Elements: most}
	if err := graph.Print(&text, m, opt); err != nil {
		t.Fatal(err)
	}
	read, err := graph.Parse(name, text.String())
	if err != nil {
		t.Error(err)
		return
	}
	if err := graph.Print(&again, read, opt); err != nil {
		t.Fatal(err)
	}
	if text.String() != again.String() {
		t.Errorf("%s: printed twice: %s", name, cmp.Diff(text.String(), again.String()))
		return
	}
	bareModel(m)
	bareModel(read)
	if !reflect.DeepEqual(m, read) {
		t.Errorf("%s: not the same graph after printing: %s", name, cmp.Diff(m, read))
	}
}

// bareModel leaves what the printed form has, except elements: no places in the file.
func bareModel(m *graph.Model) {
	m.Source = nil
	bareGraph(m.Graph)
	for _, f := range m.Functions {
		f.Span = graph.Span{}
		bareAttrs(f.Defaults)
		bareGraph(f.Body)
	}
}

func bareGraph(g *graph.Graph) {
	g.Span = graph.Span{}
	for _, t := range g.Tensors {
		t.Data = bareData(t.Data)
	}
	for _, n := range g.Nodes {
		n.Span = graph.Span{}
		bareAttrs(n.Attrs)
	}
}

func bareAttrs(list []*graph.Attr) {
	for _, a := range list {
		a.Span = graph.Span{}
		a.Tensor, a.Sparse = bareData(a.Tensor), bareSparse(a.Sparse)
		for i, d := range a.Tensors {
			a.Tensors[i] = bareData(d)
		}
		if math.IsNaN(float64(a.Float)) { // not equal to itself; its bits are in the text
			a.Float = 0
		}
		for i, v := range a.Floats {
			if math.IsNaN(float64(v)) {
				a.Floats[i] = 0
			}
		}
		for _, g := range a.All() {
			bareGraph(g)
		}
	}
}

func bareData(d *graph.Data) *graph.Data {
	if d == nil {
		return nil
	}
	b := &graph.Data{Name: d.Name, Type: d.Type, Dims: d.Dims, External: d.External, Sparse: bareSparse(d.Sparse), Bytes: d.Bytes}
	if d.Type == graph.String && d.Elided() {
		b.Bytes = 0 // the lengths of texts that are left out
	}
	return b
}

func bareSparse(s *graph.Sparse) *graph.Sparse {
	if s == nil {
		return nil
	}
	return &graph.Sparse{Values: bareData(s.Values), Indices: bareData(s.Indices), Dims: s.Dims}
}

// TestPrintNodeTests: ONNX's operator tests are the same after printing, with all elements.
func TestPrintNodeTests(t *testing.T) {
	datafolder.Path(t, "node-tests.tar.gz")
	tests, err := nodetests.Read(datafolder.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, test := range tests {
		m, err := onnx.Parse(test.Name, test.Model())
		if err != nil {
			t.Error(err)
			continue
		}
		read++
		printsAgain(t, test.Name, m, math.MaxInt64)
	}
	if read < 1000 {
		t.Errorf("%d operator tests: expected 1000 or more", read)
	}
}

// TestPrintZoo: the networks of the zoo are the same after printing, without their weights.
func TestPrintZoo(t *testing.T) {
	for _, file := range append(datafolder.Glob(t, "zoo", "*.onnx"), datafolder.Glob(t, "light", "*.onnx")...) {
		f, err := onnx.Open(file, onnx.ReadOptions{AllowMissingWeights: true})
		if err != nil {
			t.Fatal(err)
		}
		printsAgain(t, filepath.Base(file), f.Model, 0)
	}
}

// TestPrintTestdata: the small models of the repository are the same after printing.
func TestPrintTestdata(t *testing.T) {
	files, err := filepath.Glob("../testdata/*/*.onnx")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	read := 0
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // a directory that is named as a model
		}
		if m, err := onnx.Parse(file, b); err == nil {
			read++
			printsAgain(t, file, m, math.MaxInt64)
		}
	}
	if read == 0 {
		t.Error("no file was read")
	}
}

// TestEncodeParsed: a model that was read from its printed form is written with its elements,
// strings too, and refused if some are left out.
func TestEncodeParsed(t *testing.T) {
	m, err := graph.Parse("text", `ir 8; opset 21
		in i int64[1]; init words string[3] = ["a", "", "b\xff"]; 
		init w float32[2,3] = sparse (w float32[1] = [5]) (int64[1] = [4])
		y = Gather(words, i) value=(int4[3] = [-8, 7, 1]) many=[(int8[2] = [1, 2]), (float16[] = 0.5)] thin=(float64[9] = sparse (float64[1] = 7) (int64[1] = 3)) of=type(sequence(float32[3,?])) dense=type(sparse(float32[n])) other=type(opaque)
		out y; out w`)
	if err != nil {
		t.Fatal(err)
	}
	again, err := onnx.Parse("again", encode(t, m))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(graph.Text(m), graph.Text(again)); diff != "" {
		t.Error(diff)
	}
	m, err = graph.Parse("text", "ir 8; opset 21; init w float32[3] = ...; out w")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := onnx.Encode(m); err == nil || err.Error() != `tensor "w": its elements are not known: expected them, or external data, to write a file` {
		t.Errorf("got %v, want an error about elements that are not known", err)
	}
}
