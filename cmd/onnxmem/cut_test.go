//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/onnxmem/onnxmem/internal/npy"
)

// If a model or a file of weights is truncated while a command has it mapped, the
// command refuses it and writes nothing. The command also reads a pipe, so the test can
// truncate the file once the model is open.
func TestFilesCutWhileInUse(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	do := func(args ...string) (status int, stderr string) {
		t.Helper()
		var out, err bytes.Buffer
		status = run(args, &out, &err)
		return status, err.String()
	}
	for _, args := range [][]string{
		{"model", "mobilenet_v1", in("in.onnx"), "--set", "width=0.25", "--set", "size=512", "--set", "classes=10"},
		{"optimize", "--effort", "fast", in("in.onnx"), in("planned.onnx"), "--dim", "batch=2"},
		{"optimize", "--train", "--effort", "fast", in("in.onnx"), in("train.onnx"), "--dim", "batch=2"},
	} {
		if status, text := do(args...); status != 0 {
			t.Fatal(args, status, text)
		}
	}
	var image bytes.Buffer
	if err := npy.Write(&image, &npy.Array{Descr: "<f4", Shape: []int{2, 3, 512, 512}, Data: make([]byte, 4*2*3*512*512)}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cut  string // the truncated file
		args []string
		pipe string // the last argument, without the pipe
		text string // content of the pipe
		out  string // the file that must not exist
	}{
		{"planned.onnx", []string{"run", in("planned.onnx"), "--outputs", in("o.npz"), "--input"}, "image=", image.String(), "o.npz"},
		{"train.onnx", []string{"run", in("train.onnx"), "--outputs", in("o.npz"), "--input"}, "image=", image.String(), "o.npz"},
		{"in.onnx", []string{"optimize", in("in.onnx"), in("again.onnx"), "--dim", "batch=2", "--limit", "90%", "--costs"}, "", strings.Repeat(" ", 4<<20) + "{}", "again.onnx"},
	} {
		t.Run(strings.Join(c.args[:1], " ")+" "+c.cut, func(t *testing.T) {
			pipe := in("pipe.npy")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Skip(err)
			}
			defer os.Remove(pipe)
			text, err := os.ReadFile(in(c.cut))
			if err != nil {
				t.Fatal(err)
			}
			w, err := os.OpenFile(pipe, os.O_RDWR, 0) // O_RDWR does not wait for a reader
			if err != nil {
				t.Fatal(err)
			}
			cut := make(chan error, 1)
			go func() {
				// A pipe holds less than half of the text, so once that much is written, the
				// command reads it.
				half := len(c.text) / 2
				_, err := w.WriteString(c.text[:half])
				if err == nil {
					err = os.Truncate(in(c.cut), 100)
				}
				if err == nil {
					_, err = w.WriteString(c.text[half:])
				}
				cut <- errors.Join(err, w.Close())
			}()
			status, stderr := do(append(c.args, c.pipe+pipe)...)
			w.Close() // if the command never read the pipe, the write still waits
			if err := <-cut; err != nil && !errors.Is(err, os.ErrClosed) {
				t.Fatal(err)
			}
			if status != exitRefused || !strings.Contains("\n"+stderr, "\n"+in(c.cut)+": ") || !strings.Contains(stderr, "was cut to 100 bytes while it was in use (expected ") {
				t.Errorf("exit status %d, %s", status, stderr)
			}
			if _, err := os.Stat(in(c.out)); err == nil {
				t.Errorf("%s was written", c.out)
			}
			if err := os.WriteFile(in(c.cut), text, 0o666); err != nil {
				t.Fatal(err)
			}
		})
	}
}
