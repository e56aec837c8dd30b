// Package atomicfile writes files that are there whole or not at all: into a
// temporary file in the same folder, which is renamed at the end.
package atomicfile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
)

// Prefix begins the names of temporary files.
const Prefix = ".onnxmem-"

// File is a file in the making.
type File struct {
	*os.File
	path     string
	direct   bool // a device or pipe: written in place
	replaces bool // another file stands at path
}

// open is every temporary file that is neither committed nor aborted.
var open struct {
	sync.Mutex
	files map[*File]bool
}

// Create begins a file that will stand at path. A symbolic link at path is
// followed; the mode of a file that is replaced is kept.
func Create(path string) (*File, error) {
	mode := os.FileMode(0o666)
	replaces := false
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, err
		case info.IsDir():
			return nil, fmt.Errorf("%s: is a folder, expected a file name", path)
		case !info.Mode().IsRegular():
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return nil, err
			}
			return &File{File: f, path: path, direct: true}, nil
		}
		mode, replaces = info.Mode().Perm(), true
	}
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: no such folder", dir)
	}
	for range 100 {
		tmp := filepath.Join(dir, fmt.Sprintf("%s%016x", Prefix, rand.Uint64()))
		f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: cannot be written: %w", path, errors.Unwrap(err))
		}
		p := &File{File: f, path: path, replaces: replaces}
		open.Lock()
		defer open.Unlock()
		if open.files == nil {
			open.files = map[*File]bool{}
		}
		open.files[p] = true
		return p, nil
	}
	return nil, fmt.Errorf("%s: no name for a temporary file is free", dir)
}

// Commit puts the file in its place. It is written through to the disk first
// when it replaces another file, or when sync is set.
func (p *File) Commit(sync bool) error {
	if p.direct {
		return p.Close()
	}
	var err error
	if sync || p.replaces {
		err = p.Sync()
	}
	err = errors.Join(err, p.Close())
	if err == nil {
		err = os.Rename(p.Name(), p.path)
	}
	if err != nil {
		os.Remove(p.Name())
		err = fmt.Errorf("%s: %w", p.path, err)
	}
	p.forget()
	return err
}

// Abort removes what was written. It may follow a failed Commit.
func (p *File) Abort() {
	p.Close()
	if !p.direct && p.forget() {
		os.Remove(p.Name())
	}
}

// forget reports whether the temporary file was still there.
func (p *File) forget() bool {
	open.Lock()
	defer open.Unlock()
	was := open.files[p]
	delete(open.files, p)
	return was
}

// AbortAll removes every temporary file that is still open: for a program that
// is told to stop.
func AbortAll() {
	open.Lock()
	defer open.Unlock()
	for p := range open.files {
		p.Close()
		os.Remove(p.Name())
	}
	open.files = nil
}
