package onnx_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/onnx"
)

// counting counts the bytes that are read.
type counting struct {
	*bytes.Reader
	n int
}

func (c *counting) ReadAt(b []byte, off int64) (int, error) {
	c.n += len(b)
	return c.Reader.ReadAt(b, off)
}

// A model that is read by parts is the model that is mapped; its large initializers are read
// when it is written.
func TestReadAt(t *testing.T) {
	folder := datafolder.Path(t, "zoo")
	paths, _ := filepath.Glob(filepath.Join(folder, "*.onnx"))
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > 1<<20 && filepath.Base(path) != "squeezenet1_1-b1-inline.onnx" {
			continue
		}
		c := &counting{Reader: bytes.NewReader(b)}
		f, err := onnx.ReadAt(filepath.Base(path), c, int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(path) == "squeezenet1_1-b1-inline.onnx" && c.n > len(b)/2 {
			t.Errorf("%s: %d of %d bytes are read before they are needed", path, c.n, len(b))
		}
		whole, err := onnx.Parse(filepath.Base(path), b)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := onnx.GraphSHA256(f.Model), onnx.GraphSHA256(whole); got != want {
			t.Errorf("%s: digest %s, expected %s", path, got, want)
		}
		im, err := onnx.Encode(f.Model)
		if err != nil {
			t.Fatal(err)
		}
		var parts []byte
		if err := im.Parts(func(s graph.Span, made []byte) error {
			if made == nil {
				made = b[s.Off:s.End()]
			}
			parts = append(parts, made...)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if got, err := im.Bytes(); err != nil || !bytes.Equal(got, b) || !bytes.Equal(parts, b) {
			t.Errorf("%s: other bytes are written than were read (%v)", path, err)
		}
		f.Close()
	}
}

// What is wrong with a file is said in the same words, however it is read.
func TestReadAtRefuses(t *testing.T) {
	for _, folder := range []string{"bad", "hostile"} {
		paths, _ := filepath.Glob(filepath.Join(datafolder.Path(t, folder), "*.onnx"))
		for _, path := range paths {
			b, err := os.ReadFile(path)
			if err != nil || len(b) == 0 {
				continue
			}
			name := filepath.Base(path)
			_, want := onnx.Parse(name, b)
			f, got := onnx.ReadAt(name, bytes.NewReader(b), int64(len(b)))
			if got == nil {
				f.Close()
			}
			if (got == nil) != (want == nil) || got != nil && got.Error() != want.Error() {
				t.Errorf("%s: %v, expected %v", name, got, want)
			}
		}
	}
}
