// Package files tracks the files that a command reads and writes, and refuses a
// command that would overwrite one of its inputs, or write two outputs to one
// file.
package files

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/internal/printable"
)

// Set is the files of one command. Files are compared by identity: links, hard
// links and other spellings of a path are one file. Files that cannot be
// overwritten (devices, pipes, "-" for the standard streams) are not in the set.
// The zero value is an empty set.
type Set struct {
	entries map[key][]entry
	err     error
}

// entry is a file with its name in messages, such as "the model".
type entry struct {
	what, path string
	info       fs.FileInfo // nil: it does not exist yet
	written    bool
	over       []string // the inputs that it may replace
}

// key narrows down the entries that may be the same file, since a command may
// have thousands: the size if the file exists (os.SameFile decides), else its
// path.
type key struct {
	path string
	size int64
}

// Conflict says which file of a command would be lost.
type Conflict struct{ text string }

func (c *Conflict) Error() string { return c.text }

// Reads adds an input; what names it in messages, such as "the model".
func (s *Set) Reads(what, path string) { s.add(entry{what: what, path: path}) }

// Writes adds an output, which may replace the inputs in over. The same file may
// be added twice under one name.
func (s *Set) Writes(what, path string, over ...string) {
	s.add(entry{what: what, path: path, written: true, over: over})
}

// Err returns the first *Conflict of the added files, or nil.
func (s *Set) Err() error { return s.err }

func (s *Set) add(e entry) {
	if s.err != nil || e.path == "" || e.path == "-" {
		return
	}
	k, ok := e.identify()
	if !ok {
		return
	}
	for _, other := range s.entries[k] {
		if s.err == nil && other.same(&e) {
			s.err = conflict(&other, &e)
		}
	}
	if s.entries == nil {
		s.entries = map[key][]entry{}
	}
	s.entries[k] = append(s.entries[k], e)
}

// identify finds out which file it is; not ok: it cannot be overwritten.
func (e *entry) identify() (key, bool) {
	info, err := os.Stat(e.path)
	if err == nil {
		e.info = info
		return key{size: info.Size()}, info.Mode().IsRegular()
	}
	return key{path: place(e.path)}, true
}

// place is the path of a file that does not exist yet, the same for all
// spellings: its folder without links. A dangling link is replaced by the output,
// so it stands for itself.
func place(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" { // usually A and a are one file there
		path = strings.ToLower(path)
	}
	return path
}

func (e *entry) same(other *entry) bool {
	if e.info == nil || other.info == nil {
		return e.info == nil && other.info == nil // equal keys mean equal paths
	}
	return os.SameFile(e.info, other.info)
}

// conflict returns the error of two uses of one file; nil if they are compatible.
func conflict(a, b *entry) error {
	if a.written && !b.written {
		a, b = b, a
	}
	switch {
	case !b.written, a.written && a.what == b.what, !a.written && slices.Contains(b.over, a.what):
		return nil
	case a.written:
		return &Conflict{fmt.Sprintf("%s: %s goes there: expected another place for %s", shown(b, a), a.what, b.what)}
	}
	return &Conflict{fmt.Sprintf("%s: it is %s: expected another place for %s", shown(b, a), a.what, b.what)}
}

// shown is a path, with the other path of the same file if they differ.
func shown(e, other *entry) string {
	path := printable.Text(e.path)
	if filepath.Clean(e.path) != filepath.Clean(other.path) {
		path += fmt.Sprintf(" (the same file as %s)", printable.Text(other.path))
	}
	return path
}

// Same reports whether two paths name one file that can be overwritten, whether
// or not it exists yet.
func Same(a, b string) bool {
	x, y := entry{path: a}, entry{path: b}
	k, okX := x.identify()
	l, okY := y.identify()
	return okX && okY && (x.info != nil || k == l) && x.same(&y)
}
