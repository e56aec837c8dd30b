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
	*os.File // nil for a link
	tmp      string
	path     string
	direct   bool // a device or pipe: written in place
	replaces bool // another file stands at path
}

// open is every temporary file that is neither committed nor aborted.
var open struct {
	sync.Mutex
	files map[*File]bool
}

// Create begins a file that will stand at path, with the given mode less the
// umask. A symbolic link at path is followed; the mode of a file that is
// replaced is kept.
func Create(path string, mode os.FileMode) (*File, error) {
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
	var f *os.File
	tmp, err := unique(dir, func(tmp string) (err error) {
		f, err = os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: cannot be written: %w", path, err)
	}
	if replaces {
		// The umask has taken from the mode; a file system without modes is
		// no reason to fail.
		_ = f.Chmod(mode)
	}
	return remember(&File{File: f, tmp: tmp, path: path, replaces: replaces}), nil
}

// Like is the mode of a new file that holds what a file of the given mode holds:
// who may not read that may not read this.
func Like(mode os.FileMode) os.FileMode { return mode.Perm() | 0o200 }

// Link begins a hard link to from that will stand at path, where no file is.
func Link(from, path string) (*File, error) {
	tmp, err := unique(filepath.Dir(path), func(tmp string) error { return os.Link(from, tmp) })
	if err != nil {
		return nil, fmt.Errorf("%s: cannot be linked to %s: %w", path, from, err)
	}
	return remember(&File{tmp: tmp, path: path}), nil
}

// unique calls make with names in dir until one is free.
func unique(dir string, make func(tmp string) error) (string, error) {
	for range 100 {
		tmp := filepath.Join(dir, fmt.Sprintf("%s%016x", Prefix, rand.Uint64()))
		switch err := make(tmp); {
		case err == nil:
			return tmp, nil
		case !errors.Is(err, os.ErrExist):
			return "", cause(err)
		}
	}
	return "", errors.New("no name for a temporary file is free")
}

// cause is an error without the temporary name, which says nothing to a user.
func cause(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

func remember(p *File) *File {
	open.Lock()
	defer open.Unlock()
	if open.files == nil {
		open.files = map[*File]bool{}
	}
	open.files[p] = true
	return p
}

// Commit puts the file in its place. It is written through to the disk first
// when it replaces another file, or when sync is set.
func (p *File) Commit(sync bool) error { return Commit(sync, p) }

// Commit puts files in their places, in order: what takes long and can fail is
// done for all of them before the first is renamed.
func Commit(sync bool, files ...*File) error {
	for _, p := range files {
		if err := p.finish(sync); err != nil {
			abort(files)
			return fmt.Errorf("%s: %w", p.path, err)
		}
	}
	open.Lock()
	for i, p := range files {
		if p.direct {
			continue
		}
		err := os.ErrClosed // aborted meanwhile
		if open.files[p] {
			err = os.Rename(p.tmp, p.path)
		}
		if err != nil {
			open.Unlock()
			abort(files)
			takeBack(files[:i])
			return fmt.Errorf("%s: %w", p.path, cause(err))
		}
		delete(open.files, p)
	}
	open.Unlock()
	return nil
}

// takeBack removes files that stand in their places, but for those that took
// the place of another.
func takeBack(files []*File) {
	for _, p := range files {
		if !p.direct && !p.replaces {
			os.Remove(p.path)
		}
	}
}

func abort(files []*File) {
	for _, p := range files {
		p.Abort()
	}
}

// finish closes the file, its bytes on the disk where that is called for.
func (p *File) finish(sync bool) error {
	if p.File == nil {
		return nil
	}
	var err error
	if !p.direct && (sync || p.replaces) {
		err = p.Sync()
	}
	return errors.Join(err, p.Close())
}

// Abort removes what was written. It does nothing after a Commit.
func (p *File) Abort() {
	open.Lock()
	defer open.Unlock()
	p.abort()
}

func (p *File) abort() {
	if p.File != nil {
		p.Close()
	}
	if open.files[p] {
		os.Remove(p.tmp)
		delete(open.files, p)
	}
}

// AbortAll removes every temporary file that is still open.
func AbortAll() {
	open.Lock()
	defer open.Unlock()
	for p := range open.files {
		p.abort()
	}
}

// Stop is AbortAll for a program that ends at once: it lets no other file be
// put in its place afterwards.
func Stop() {
	open.Lock() // and never unlocked
	for p := range open.files {
		p.abort()
	}
}
