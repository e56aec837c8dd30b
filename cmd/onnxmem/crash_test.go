package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
)

// writer is a stream that fails in some way.
type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// TestBugIsOneLine: a panic, wherever it occurs, prints one line; it prints a stack only
// on request.
func TestBugIsOneLine(t *testing.T) {
	broken := writer(func([]byte) (int, error) { panic(errors.New("index\n\x1b[31mout of range")) })
	t.Setenv(debugVariable, "")
	var errs bytes.Buffer
	if status := run([]string{"model"}, broken, &errs); status != exitFailed {
		t.Errorf("exit status %d, expected %d", status, exitFailed)
	}
	const want = "onnxmem: internal error: index\\n\\x1b[31mout of range: please report it with the command line and its files at https://github.com/onnxmem/onnxmem/issues (ONNXMEM_DEBUG=1 shows where)\n"
	if errs.String() != want {
		t.Errorf("got %q, want %q", &errs, want)
	}
	errs.Reset()
	t.Setenv(debugVariable, "1")
	run([]string{"model"}, broken, &errs)
	if text := errs.String(); !strings.HasPrefix(text, want) || !strings.Contains(text, "crash_test.go") {
		t.Errorf("got %q, expected a stack, too", text)
	}
}

// TestResultsThatCannotBeWritten: code that prints results does not check errors, yet
// the command fails if its output is lost.
func TestResultsThatCannotBeWritten(t *testing.T) {
	for _, line := range []string{"model", "model --json", "--help", "--version", "completion zsh"} {
		var errs bytes.Buffer
		full := writer(func([]byte) (int, error) {
			return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: errors.New("no space left on device")}
		})
		status := run(strings.Fields(line), full, &errs)
		if want := "onnxmem: standard output: cannot be written: no space left on device\n"; status != exitFailed || errs.String() != want {
			t.Errorf("%s: exit status %d, %q, expected %d, %q", line, status, &errs, exitFailed, want)
		}
	}
	if runtime.GOOS != "linux" {
		return
	}
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	if status := run([]string{"model"}, f, io.Discard); status != exitFailed {
		t.Errorf("exit status %d, expected %d", status, exitFailed)
	}
}
