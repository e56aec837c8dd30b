package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/onnxmem/onnxmem/internal/oserr"
)

// The methods below are those of os.File, but that their errors name the file as the
// caller does, in the place of its temporary name, and say what to do.

// Write writes bytes.
func (p *File) Write(b []byte) (int, error) {
	n, err := p.File.Write(b)
	return n, p.named(err)
}

// WriteString writes a text.
func (p *File) WriteString(s string) (int, error) {
	n, err := p.File.WriteString(s)
	return n, p.named(err)
}

// ReadFrom writes what r holds, within the kernel where r is a file.
func (p *File) ReadFrom(r io.Reader) (int64, error) {
	n, err := p.File.ReadFrom(r)
	return n, p.named(err)
}

// Seek goes to a place in the file.
func (p *File) Seek(offset int64, whence int) (int64, error) {
	n, err := p.File.Seek(offset, whence)
	return n, p.named(err)
}

// Truncate makes the file that long.
func (p *File) Truncate(size int64) error { return p.named(p.File.Truncate(size)) }

// named puts the file's name and what to do into an error of the system. One that
// has them, or that is about what is copied into the file, keeps its own.
func (p *File) named(err error) error {
	var path *fs.PathError
	var other *unwritable
	switch {
	case err == nil, errors.As(err, &other):
		return err
	case errors.As(err, &path) && path.Path != p.tmp && path.Path != p.path:
		return cannot(path.Path, "read", oserr.Reason(err))
	}
	return cannot(p.name, "written", oserr.Writing(filepath.Dir(p.path), err))
}

// unwritable says what cannot be done with a file, by the name that the caller has for
// it.
type unwritable struct {
	name, what string
	err        error
}

func cannot(name, what string, err error) error { return &unwritable{name, what, err} }

func (e *unwritable) Error() string { return e.name + ": cannot be " + e.what + ": " + e.err.Error() }
func (e *unwritable) Unwrap() error { return e.err }
