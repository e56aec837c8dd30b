package onnx_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
)

// chain builds Relu(x + w) with a weight w of weightBytes bytes.
func chain(t testing.TB, weightBytes int64) *graph.Model {
	t.Helper()
	g := &graph.Graph{Name: "chain"}
	n := weightBytes / 4
	declare := func(name string) graph.TensorID {
		id := g.NewTensor(name)
		g.Tensors[id].Declared = &graph.Declared{Type: graph.TensorOf(graph.Float32, graph.Dim(n)), Symbols: []string{""}}
		return id
	}
	x, y, z := declare("x"), g.NewTensor("y"), declare("z")
	w := g.NewTensor("w")
	g.Tensors[w].Data = &graph.Data{
		Name: "w", Type: graph.Float32, Dims: []int64{n}, Bytes: weightBytes,
		Generate: func(w io.Writer) error { _, err := w.Write(bytes.Repeat([]byte{1, 2, 3, 63}, int(n))); return err },
	}
	g.Tensors[x].Input, g.Tensors[z].Output = true, true
	g.Inputs, g.Outputs = []graph.TensorID{x}, []graph.TensorID{z}
	g.Nodes = []*graph.Node{
		{Name: "add", Op: "Add", Inputs: []graph.TensorID{x, w}, Outputs: []graph.TensorID{y}},
		{Name: "relu", Op: "Relu", Inputs: []graph.TensorID{y}, Outputs: []graph.TensorID{z}},
	}
	g.Link()
	return &graph.Model{IRVersion: 8, Producer: "test", Opsets: []graph.Opset{{Domain: "", Version: 17}}, Graph: g}
}

func TestBuiltModelReadsBack(t *testing.T) {
	m, err := onnx.Parse("chain.onnx", encode(t, chain(t, 4096)))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := nodeNames(m.Graph), []string{"add Add", "relu Relu"}; !slices.Equal(got, want) {
		t.Errorf("nodes %q, expected %q", got, want)
	}
	for _, x := range m.Graph.Tensors {
		if x.Data != nil && (x.Name != "w" || len(x.Data.Raw) != 4096 || x.Data.Raw[3] != 63) {
			t.Errorf("initializer %q with %d bytes", x.Name, len(x.Data.Raw))
		}
	}
}

// TestDeclaredTypesReadBack: what a file declares of values that are no tensors.
func TestDeclaredTypesReadBack(t *testing.T) {
	float, ids := graph.TensorOf(graph.Float32), graph.Type{Kind: graph.KindTensor, Elem: graph.Int64}
	chances := graph.Type{Kind: graph.KindMap, Key: graph.String, Of: &float}
	for _, c := range []struct {
		typ  graph.Type
		want string
	}{
		{chances, "map(string, float32)"},
		{graph.Type{Kind: graph.KindMap, Key: graph.Int64, Of: &ids}, "map(int64, int64)"},
		{graph.Type{Kind: graph.KindMap}, "map"},
		{graph.Type{Kind: graph.KindSequence, Of: &chances}, "sequence(map(string, float32))"},
		{graph.Type{Kind: graph.KindOptional, Of: &ids}, "optional(int64[...])"},
	} {
		m := chain(t, 64)
		m.Graph.Tensors[m.Graph.Inputs[0]].Declared = &graph.Declared{Type: c.typ}
		m, err := onnx.Parse("chain.onnx", encode(t, m))
		if err != nil {
			t.Errorf("%s: %v", c.want, err)
			continue
		}
		if got := m.Graph.Tensors[m.Graph.Inputs[0]].Declared.Type.String(); got != c.want {
			t.Errorf("found %s, expected %s", got, c.want)
		}
	}
}

// TestLargeWeightsKeepTheirPlaceInABlock: the bytes after the annotations keep their
// offset modulo the copy unit, so that the kernel can copy or share whole blocks.
func TestLargeWeightsKeepTheirPlaceInABlock(t *testing.T) {
	for _, c := range []struct{ bytes, unit int64 }{{2 << 20, 4 << 10}, {40 << 20, 64 << 10}} {
		for name := 1; name < 9000; name += 2999 {
			m, err := onnx.Parse("chain.onnx", encode(t, chain(t, c.bytes)))
			if err != nil {
				t.Fatal(err)
			}
			before := weight(m).Payload[0].Off
			m.Graph.Nodes[0].SetProp("onnxmem.offset", strings.Repeat("y", name)+"=arena:0:64")
			m.SetProp("onnxmem.plan_version", "1")
			out := encode(t, m)
			again, err := onnx.Parse("out.onnx", out)
			if err != nil {
				t.Fatal(err)
			}
			if after := weight(again).Payload[0].Off; (after-before)%c.unit != 0 {
				t.Errorf("weight of %d bytes at byte %d, was at %d: expected the same place in units of %d", c.bytes, after, before, c.unit)
			}
			if got := encode(t, again); !bytes.Equal(got, out) {
				t.Errorf("the padded file changes when it is written again")
			}
		}
	}
}

func weight(m *graph.Model) *graph.Data {
	for _, t := range m.Graph.Tensors {
		if t.Data != nil {
			return t.Data
		}
	}
	return nil
}

// TestPlanningAgainReplaces: a new plan's metadata replace those of an earlier plan.
func TestPlanningAgainReplaces(t *testing.T) {
	m := chain(t, 64)
	m.SetProp("other", "kept")
	m.SetProp("onnxmem.plan_version", "0")
	m.Graph.Nodes[0].SetProp("onnxmem.offset", "old")
	again, err := onnx.Parse("old.onnx", encode(t, m))
	if err != nil {
		t.Fatal(err)
	}
	again.SetProp("onnxmem.plan_version", "1")
	again.Graph.Nodes[0].SetProp("onnxmem.offset", "new")
	last, err := onnx.Parse("new.onnx", encode(t, again))
	if err != nil {
		t.Fatal(err)
	}
	if want := []graph.Prop{{Key: "other", Value: "kept"}, {Key: "onnxmem.plan_version", Value: "1"}}; !slices.Equal(last.Props, want) {
		t.Errorf("model metadata %v, expected %v", last.Props, want)
	}
	if want := []graph.Prop{{Key: "onnxmem.offset", Value: "new"}}; !slices.Equal(last.Graph.Nodes[0].Props, want) {
		t.Errorf("node metadata %v, expected %v", last.Graph.Nodes[0].Props, want)
	}
}

// TestGraphHashLeavesWeightsOut: the hash does not depend on the values of the weights.
func TestGraphHashLeavesWeightsOut(t *testing.T) {
	b := encode(t, chain(t, 64))
	m, err := onnx.Parse("a.onnx", b)
	if err != nil {
		t.Fatal(err)
	}
	im, _ := onnx.Encode(m)
	if im.GraphSHA256() != onnx.GraphSHA256(m) {
		t.Errorf("hash of the image %s, of the source %s", im.GraphSHA256(), onnx.GraphSHA256(m))
	}
	built, _ := onnx.Encode(chain(t, 64))
	if built.GraphSHA256() != im.GraphSHA256() {
		t.Errorf("hash of the built model %s, of the file %s", built.GraphSHA256(), im.GraphSHA256())
	}
	other := bytes.Replace(b, []byte{1, 2, 3, 63}, []byte{9, 2, 3, 63}, 1)
	o, err := onnx.Parse("b.onnx", other)
	if err != nil {
		t.Fatal(err)
	}
	if onnx.GraphSHA256(o) != onnx.GraphSHA256(m) {
		t.Errorf("another weight gives another hash")
	}
	renamed := bytes.Replace(b, []byte("relu"), []byte("rely"), 1)
	if o, err = onnx.Parse("c.onnx", renamed); err != nil {
		t.Fatal(err)
	}
	if onnx.GraphSHA256(o) == onnx.GraphSHA256(m) {
		t.Errorf("another node name gives the same hash")
	}
}

// TestGraphHashCoversBodies: the elements of an initializer of a body that was built in
// memory count, as those of a file's do.
func TestGraphHashCoversBodies(t *testing.T) {
	built := func(first byte) *graph.Model {
		m := chain(t, 64)
		var bodies []*graph.Attr
		for _, d := range []*graph.Data{
			{Name: "raw", Type: graph.Uint8, Dims: []int64{2}, Bytes: 2, Raw: []byte{first, 2}},
			{Name: "made", Type: graph.Uint8, Dims: []int64{2}, Bytes: 2, Generate: func(w io.Writer) error { _, err := w.Write([]byte{first, 2}); return err }},
		} {
			g := &graph.Graph{Name: d.Name + ".body"}
			w, y := g.NewTensor(d.Name), g.NewTensor(d.Name+".copy")
			g.Tensors[w].Data = d
			g.Outputs = []graph.TensorID{y}
			g.Nodes = []*graph.Node{{Op: "Identity", Inputs: []graph.TensorID{w}, Outputs: []graph.TensorID{y}}}
			g.Link()
			bodies = append(bodies, &graph.Attr{Name: d.Name, Type: graph.AttrGraph, Graph: g})
		}
		m.Graph.Nodes[1].Attrs = bodies
		return m
	}
	hashes := map[string]bool{}
	for _, first := range []byte{1, 7} {
		im, err := onnx.Encode(built(first))
		if err != nil {
			t.Fatal(err)
		}
		read, err := onnx.Parse("bodies.onnx", encode(t, built(first)))
		if err != nil {
			t.Fatal(err)
		}
		if im.GraphSHA256() != onnx.GraphSHA256(read) {
			t.Errorf("hash of the built model %s, of the file %s", im.GraphSHA256(), onnx.GraphSHA256(read))
		}
		hashes[im.GraphSHA256()] = true
	}
	if len(hashes) != 2 {
		t.Error("other elements give the same hash")
	}
}

// external writes a model whose weight is in dir/data/w.bin.
func external(t testing.TB, dir string) string {
	t.Helper()
	m := chain(t, 64)
	weight(m).External = &graph.External{Location: "data/w.bin", Offset: 16, Length: 64}
	path := filepath.Join(dir, "model.onnx")
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{path: encode(t, m), filepath.Join(dir, "data", "w.bin"): bytes.Repeat([]byte{7}, 80)} {
		if err := os.WriteFile(name, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestExternalData(t *testing.T) {
	for _, mode := range []onnx.ExternalMode{"", onnx.ExternalCopy, onnx.ExternalLink, onnx.ExternalKeep} {
		t.Run("mode="+string(mode), func(t *testing.T) {
			in, out := t.TempDir(), t.TempDir()
			f, err := onnx.Open(external(t, in), onnx.ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			im, err := onnx.Encode(f.Model)
			if err != nil {
				t.Fatal(err)
			}
			target := filepath.Join(out, "model.onnx")
			if err := onnx.Write(target, f.Model, im, onnx.WriteOptions{External: mode}); err != nil {
				t.Fatal(err)
			}
			_, err = onnx.Open(target, onnx.ReadOptions{})
			if mode == onnx.ExternalKeep {
				if err == nil || !strings.Contains(err.Error(), `external data in "data/w.bin": not found`) {
					t.Errorf("opening without the data: %v, expected not found", err)
				}
				return
			}
			if err != nil {
				t.Error(err)
			}
			// A second write finds the same data in place and succeeds.
			if err := onnx.Write(target, f.Model, im, onnx.WriteOptions{External: mode}); err != nil {
				t.Errorf("writing twice: %v", err)
			}
			// A write does not replace other data under that name, and leaves no new file.
			data := filepath.Join(out, "data", "w.bin")
			os.Remove(data)
			os.WriteFile(data, []byte("mine"), 0o666)
			os.Remove(target)
			if err := onnx.Write(target, f.Model, im, onnx.WriteOptions{External: mode}); err == nil {
				t.Errorf("the write accepted a foreign file as the external data")
			}
			if left, _ := filepath.Glob(filepath.Join(out, "*")); len(left) != 1 {
				t.Errorf("left behind: %q, expected the data folder alone", left)
			}
		})
	}
}

// TestReplaceSource: the output may overwrite the input.
func TestReplaceSource(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := os.WriteFile(path, encode(t, chain(t, 3<<20)), 0o640); err != nil {
		t.Fatal(err)
	}
	f, err := onnx.Open(path, onnx.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i, n := range f.Graph.Nodes {
		n.SetProp("onnxmem.offset", fmt.Sprint("place", i))
	}
	im, err := onnx.Encode(f.Model)
	if err != nil {
		t.Fatal(err)
	}
	want, err := im.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if err := onnx.Write(path, f.Model, im, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes in the file (%v), expected %d others", len(got), err, len(want))
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, expected that of the file that was replaced", info.Mode().Perm())
	}
}
