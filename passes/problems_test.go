package passes

import (
	"compress/gzip"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/internal/datafolder"
)

var problemsDir = flag.String("problems", "", "folder for the bare problems of the zoo: see make ablation")

// TestWriteProblems writes the bare problems of the zoo, for inference and
// training, for programs that do not read ONNX: the nodes to order, and the buffers
// to place in the best order.
func TestWriteProblems(t *testing.T) {
	if *problemsDir == "" {
		t.Skip("-problems names no folder")
	}
	for _, path := range datafolder.Glob(t, "zoo", "*.onnx") {
		name := strings.TrimSuffix(filepath.Base(path), ".onnx")
		for suffix, train := range map[string]*autodiff.Options{"": nil, "-train": {}} {
			t.Run(name+suffix, func(t *testing.T) {
				p := problemOf(t, path, train)
				writeBuffers(t, filepath.Join(*problemsDir, name+suffix+".csv"), stateBefore(t, path, train, "place"))
				f, err := os.Create(filepath.Join(*problemsDir, name+suffix+".json.gz"))
				if err != nil {
					t.Fatal(err)
				}
				z := gzip.NewWriter(f)
				if err := json.NewEncoder(z).Encode(p); err != nil {
					t.Fatal(err)
				}
				if err := z.Close(); err != nil {
					t.Fatal(err)
				}
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// writeBuffers writes the buffers of the main graph with all its in-place pairs.
func writeBuffers(t *testing.T, path string, s *State) {
	p := alloc.Problem{}
	buffers, err := s.now.Main.Chains(s.now.Main.Loads.Taken)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range buffers {
		if !b.Resident && !b.Host {
			p.Buffers = append(p.Buffers, alloc.Buffer{Size: b.Bytes, First: b.First, Last: b.Last})
		}
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.WriteCSV(f, nil); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
