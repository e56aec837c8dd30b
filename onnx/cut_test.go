package onnx_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
)

// A model is truncated while it is written to another file. Whichever way its bytes are
// copied (through a buffer, by a write from the mapping, by the kernel), the error says
// so and no file is left.
func TestWriteOfAModelThatIsCut(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file cannot be cut")
	}
	for _, size := range []int64{100_000, 400_000, 2_000_000} {
		for _, left := range []int64{0, 70_000, -1} { // -1: all but one byte
			t.Run(fmt.Sprintf("%d bytes cut to %d", size, left), func(t *testing.T) {
				dir := t.TempDir()
				path, out := filepath.Join(dir, "m.onnx"), filepath.Join(dir, "out.onnx")
				if err := os.WriteFile(path, encode(t, chain(t, size)), 0o666); err != nil {
					t.Fatal(err)
				}
				f, err := onnx.Open(path, onnx.ReadOptions{})
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				im, err := onnx.Encode(f.Model)
				if err != nil {
					t.Fatal(err)
				}
				if left < 0 {
					left = im.Size - 1
				}
				if err := os.Truncate(path, left); err != nil {
					t.Fatal(err)
				}
				want := regexp.MustCompile(fmt.Sprintf(`^%s: (byte \d+ can no longer be read: the file )?was cut to %d bytes while it was in use \(expected %d\)$`,
					regexp.QuoteMeta(path), left, im.Size))
				_, toWriter := im.WriteTo(io.Discard)
				_, toBytes := im.Bytes()
				for name, err := range map[string]error{
					"Write": onnx.Write(out, f.Model, im, onnx.WriteOptions{}), "WriteTo": toWriter, "Bytes": toBytes,
				} {
					var e *graph.Error
					if err == nil || !want.MatchString(err.Error()) || !errors.As(err, &e) {
						t.Errorf("%s: got %v, want %v", name, err, want)
					}
				}
				if list, _ := os.ReadDir(dir); len(list) != 1 {
					t.Errorf("files are left: %v", list)
				}
			})
		}
	}
}

// GraphSHA256 returns no error, so it panics with it.
func TestHashOfAModelThatIsCut(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file cannot be cut")
	}
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := os.WriteFile(path, encode(t, chain(t, 40)), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := onnx.Open(path, onnx.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	defer func() {
		var e *graph.Error
		if err, _ := recover().(error); !errors.As(err, &e) || e.File != path {
			t.Errorf("got %v", err)
		}
	}()
	t.Errorf("got %s", onnx.GraphSHA256(f.Model))
}
