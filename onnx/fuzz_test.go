package onnx_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
)

// seedModels adds small real and broken files to a fuzz corpus.
func seedModels(f *testing.F) {
	for _, pattern := range []string{"../testdata/bad/*.onnx", "../testdata/nodes/*/model.onnx", "../testdata/light/*.onnx"} {
		files, _ := filepath.Glob(pattern)
		for _, path := range files {
			if b, err := os.ReadFile(path); err == nil && len(b) < 64<<10 {
				f.Add(b)
			}
		}
	}
}

// FuzzRead: no input makes the reader panic, and every error names the file.
func FuzzRead(f *testing.F) {
	seedModels(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := onnx.Parse("fuzz.onnx", b)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "fuzz.onnx: ") {
				t.Errorf("error does not name the file: %v", err)
			}
			return
		}
		if _, err := m.Graph.Topological(); err != nil {
			t.Errorf("a model that was accepted is cyclic: %v", err)
		}
	})
}

// FuzzRoundTrip: an unchanged model is written byte for byte as it was read. With its
// nodes in another order, it can be read again and has the same nodes.
func FuzzRoundTrip(f *testing.F) {
	seedModels(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := onnx.Parse("fuzz.onnx", b)
		if err != nil {
			return
		}
		if got := encode(t, m); !bytes.Equal(got, b) {
			t.Fatalf("%d bytes in, %d other bytes out", len(b), len(got))
		}
		want := nodeNames(m.Graph)
		slices.Reverse(m.Graph.Nodes)
		m.Graph.Link()
		for _, n := range m.Graph.Nodes {
			n.SetProp("onnxmem.offset", "x=arena:0:64")
		}
		again, err := onnx.Parse("again.onnx", encode(t, m))
		if err != nil {
			t.Fatalf("the reversed model cannot be read: %v", err)
		}
		got := nodeNames(again.Graph)
		slices.Reverse(got)
		if !slices.Equal(got, want) {
			t.Errorf("nodes after reversing twice: %q, expected %q", got, want)
		}
	})
}

func encode(t testing.TB, m *graph.Model) []byte {
	t.Helper()
	im, err := onnx.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	b, err := im.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(b)) != im.Size {
		t.Fatalf("image has %d bytes, announced %d", len(b), im.Size)
	}
	return b
}

func nodeNames(g *graph.Graph) []string {
	var names []string
	for _, n := range g.Nodes {
		names = append(names, n.Name+" "+n.Op)
	}
	return names
}
