package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/readable"
	"github.com/onnxmem/onnxmem/schedule"
)

// input is a text that is being read; it is unpacked if it is gzipped.
type input struct {
	*bufio.Reader
	name  string // for messages
	close func() error
}

// headBytes is the number of bytes that are examined to determine what a text is.
const headBytes = 64 << 10

// openInput opens a file; "-" is standard input. Errors about it are of type
// *graph.Error, like those of refuse.
func openInput(path string) (*input, error) {
	file := &counted{Reader: os.Stdin}
	in := &input{name: "standard input", close: func() error { return nil }}
	if path != "-" {
		f, err := readable.Open(path)
		if err != nil {
			return nil, &graph.Error{File: path, Offset: -1, Err: err}
		}
		file.Reader = f
		in.name, in.close = path, f.Close
	}
	in.Reader = bufio.NewReaderSize(file, headBytes)
	if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
		z, err := gzip.NewReader(in.Reader)
		if err != nil {
			in.close()
			return nil, in.refuse(fmt.Errorf("gzip: %w", err))
		}
		in.Reader = bufio.NewReaderSize(&inflated{counted{Reader: z}, file}, headBytes)
	}
	return in, nil
}

// refuse adds the file's name to an error.
func (in *input) refuse(err error) error {
	if err == nil {
		return nil
	}
	return &graph.Error{File: in.name, Offset: -1, Err: err}
}

// isJSON reports whether the first byte that is not white space begins an object
// or a list.
func (in *input) isJSON() bool {
	head, _ := in.Peek(512)
	head = bytes.TrimLeft(head, " \t\r\n")
	return len(head) > 0 && (head[0] == '{' || head[0] == '[')
}

// isProblem reports whether a JSON text is a scheduling problem, judging by its
// beginning.
func (in *input) isProblem() bool {
	head, _ := in.Peek(headBytes)
	return isProblem(head)
}

// bareProblem opens a file if it is a scheduling problem; otherwise it returns nil. kind and
// text are what peek said about it. What is gzipped is no plan and no model.
func bareProblem(path string, kind sourceKind, text []byte) (*input, error) {
	packed := bytes.HasPrefix(text, []byte("\x1f\x8b")) || strings.HasSuffix(path, ".gz")
	if kind != isPlan && !packed {
		return nil, nil
	}
	in := &input{Reader: bufio.NewReaderSize(bytes.NewReader(text), headBytes), name: "standard input", close: func() error { return nil }}
	if text == nil {
		var err error
		if in, err = openInput(path); err != nil {
			return nil, err
		}
		packed = false // the text has been unpacked
	}
	if packed || in.isProblem() {
		return in, nil
	}
	return nil, in.close()
}

// problem reads a scheduling problem.
func (in *input) problem() (*schedule.Problem, error) {
	defer collectOften()()
	p, err := schedule.ReadProblem(in)
	return p, in.refuse(err)
}

// collectOften makes the collector keep garbage small while a large file is read: this
// takes a tenth more time, and a third less memory. The returned function ends
// that.
func collectOften() func() { return collectAt(20) }

// collectAt sets how much garbage the collector lets grow, in per cent of what is in use,
// unless the user has. The returned function ends that.
func collectAt(percent int) func() {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(percent)
	return func() { debug.SetGCPercent(before) }
}

// buffers reads the buffers of a CSV or of its JSON form; the dialect is nil for
// JSON.
func (in *input) buffers() (p alloc.Problem, d alloc.Dialect, err error) {
	defer collectOften()()
	if in.isJSON() {
		p, err = alloc.ReadJSON(in)
	} else {
		p, d, err = alloc.ReadDialect(in)
	}
	return p, d, in.refuse(err)
}

// counted counts the bytes that are read.
type counted struct {
	io.Reader
	n int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += int64(n)
	return n, err
}

// inflated reads an unpacked text, and fails if a small file goes on without end:
// beyond 4 MiB it may inflate a hundredfold; real ones inflate up to 30-fold.
type inflated struct {
	counted
	packed *counted
}

func (f *inflated) Read(b []byte) (int, error) {
	const free, most = 4 << 20, 100
	n, err := f.counted.Read(b)
	if f.n > max(free, most*f.packed.n) {
		return 0, fmt.Errorf("gzip: %d bytes inflate to more than %d times as many", f.packed.n, most)
	}
	return n, err
}
