package onnx_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/onnx"
)

// models lists the ONNX files in a folder.
func models(t testing.TB, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.onnx"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no models in %s (%v)", dir, err)
	}
	return files
}

func TestUnchangedIsIdentical(t *testing.T) {
	for _, folder := range []string{"zoo", "light"} {
		for _, path := range models(t, datafolder.Path(t, folder)) {
			f, err := onnx.Open(path, onnx.ReadOptions{AllowMissingWeights: true})
			if err != nil {
				t.Errorf("%v", err)
				continue
			}
			im, err := onnx.Encode(f.Model)
			if err != nil {
				t.Fatal(err)
			}
			got, err := im.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, f.Source.Bytes) {
				t.Errorf("%s: %d bytes out differ from %d bytes in", path, len(got), len(f.Source.Bytes))
			}
			f.Close()
		}
	}
}

func TestBad(t *testing.T) {
	dir := datafolder.Path(t, "bad")
	list, err := os.ReadFile(filepath.Join(dir, "expected.csv"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(list)), "\n")[1:] {
		name, rest, _ := strings.Cut(line, ",")
		want, _, _ := strings.Cut(rest, ",")
		f, err := onnx.Open(filepath.Join(dir, name), onnx.ReadOptions{})
		t.Logf("%s %s: %v", name, want, err)
		if err == nil {
			f.Close()
		} else if want == "accept" {
			t.Errorf("%s: %v, expected to be accepted", name, err)
		}
	}
}
