package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"

	"github.com/onnxmem/onnxmem/internal/printable"
)

// stream is standard output or standard error. It keeps its first error, since
// code that prints does not check errors, and whether anything was written.
type stream struct {
	io.Writer
	name string // for messages

	mu    sync.Mutex
	err   error
	wrote bool // something was written
}

func (s *stream) Write(b []byte) (int, error) {
	n, err := s.Writer.Write(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrote = s.wrote || n > 0
	if err == nil {
		return n, nil
	}
	if s.err == nil {
		s.err = s.named(err)
	}
	return n, s.err
}

// named is an error with the stream's name instead of the file's.
func (s *stream) named(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return &streamError{s.name, err}
}

// streamError reports that a stream cannot be written.
type streamError struct {
	name string
	err  error
}

func (e *streamError) Error() string { return fmt.Sprintf("%s: cannot be written: %v", e.name, e.err) }
func (e *streamError) Unwrap() error { return e.err }

// failed returns the first error.
func (s *stream) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// people is a stream of lines for people: control characters in names from models
// and disks are escaped. Data in a format are written to the stream itself.
type people struct{ *stream }

// Write writes whole lines, or parts of them.
func (p people) Write(b []byte) (int, error) {
	lines := strings.Split(string(b), "\n")
	for i, line := range lines {
		lines[i] = printable.Escape(line)
	}
	if _, err := p.stream.Write([]byte(strings.Join(lines, "\n"))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// messages is the stream for results while standard output is for data.
func (e *env) messages() people { return people{&stream{Writer: e.stderr, name: "standard error"}} }

// say prints a message to standard error.
func (e *env) say(format string, args ...any) {
	fmt.Fprintf(e.stderr, "onnxmem: %s\n", printable.Line(fmt.Sprintf(format, args...)))
}

// printableJSON escapes characters in a JSON text that a terminal might obey,
// such as C1 controls, which encoding/json leaves unescaped. The meaning stays:
// such characters occur in strings only.
func printableJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch {
		case r == '\n' || strconv.IsPrint(r):
			out = append(out, string(r)...)
		case r > 0xffff:
			a, b := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, a, b)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}
