package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/graph"
)

// mostInput is the longest text that is read, after decompression.
const mostInput = 1 << 30

// input is a text that is being read, unpacked if it is gzipped.
type input struct {
	*bufio.Reader
	name  string // for messages
	close func() error
}

// openInput opens a file; "-" is standard input. What is wrong with it is told
// by errors of type *graph.Error, as by those of refuse.
func openInput(path string) (*input, error) {
	in := &input{Reader: bufio.NewReader(os.Stdin), name: "standard input", close: func() error { return nil }}
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			if errors.Is(err, os.ErrNotExist) {
				err = errors.New("not found")
			}
			return nil, &graph.Error{File: path, Offset: -1, Err: err}
		}
		if info, err := f.Stat(); err == nil && info.IsDir() {
			f.Close()
			return nil, &graph.Error{File: path, Offset: -1, Err: errors.New("is a folder, expected a file")}
		}
		in = &input{bufio.NewReader(f), path, f.Close}
	}
	if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
		z, err := gzip.NewReader(in.Reader)
		if err != nil {
			in.close()
			return nil, in.refuse(fmt.Errorf("gzip: %w", err))
		}
		in.Reader = bufio.NewReader(&atMost{z, mostInput})
	}
	return in, nil
}

// refuse puts the file's name into an error.
func (in *input) refuse(err error) error {
	if err == nil {
		return nil
	}
	return &graph.Error{File: in.name, Offset: -1, Err: err}
}

// isJSON says whether the first byte that is no blank begins an object or a list.
func (in *input) isJSON() bool {
	head, _ := in.Peek(512)
	head = bytes.TrimLeft(head, " \t\r\n")
	return len(head) > 0 && (head[0] == '{' || head[0] == '[')
}

// buffers reads the buffers of a CSV or of its JSON form; the dialect is nil for
// JSON.
func (in *input) buffers() (p alloc.Problem, d alloc.Dialect, err error) {
	if in.isJSON() {
		p, err = alloc.ReadJSON(in)
	} else {
		p, d, err = alloc.ReadDialect(in)
	}
	return p, d, in.refuse(err)
}

// atMost fails where a reader goes on for longer than it should.
type atMost struct {
	r    io.Reader
	left int64
}

func (a *atMost) Read(b []byte) (int, error) {
	n, err := a.r.Read(b)
	if a.left -= int64(n); a.left < 0 {
		return 0, fmt.Errorf("expected at most %d bytes", int64(mostInput))
	}
	return n, err
}
