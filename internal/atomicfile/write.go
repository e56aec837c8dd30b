package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/onnxmem/onnxmem/internal/oserr"
)

// The methods below are those of os.File, but their errors name the file as the
// caller does, instead of its temporary name, and say what to do.

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

// ReadFrom writes the content of r, within the kernel if r is a file.
func (p *File) ReadFrom(r io.Reader) (int64, error) {
	n, err := p.File.ReadFrom(r)
	return n, p.named(err)
}

// Seek sets the position in the file.
func (p *File) Seek(offset int64, whence int) (int64, error) {
	n, err := p.File.Seek(offset, whence)
	return n, p.named(err)
}

// Truncate sets the length of the file.
func (p *File) Truncate(size int64) error { return p.named(p.File.Truncate(size)) }

// named adds the file's name, and what to do, to a system error. An error that
// has them, or that concerns the source of a copy, stays.
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

// unwritable says what failed for a file, under the name that the caller uses.
type unwritable struct {
	name, what string
	err        error
}

func cannot(name, what string, err error) error { return &unwritable{name, what, err} }

func (e *unwritable) Error() string { return e.name + ": cannot be " + e.what + ": " + e.err.Error() }
func (e *unwritable) Unwrap() error { return e.err }
