// Package files knows which files a command reads and which it writes, and
// refuses a command that would write over what it reads, or two things into one
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

// Set is the files of one command. Files are the same by identity: links, hard
// links and other spellings of a path name one file. What cannot be written over
// (devices, pipes, "-" for the standard streams) is in no set. The zero value is an
// empty set.
type Set struct {
	entries map[key][]entry
	err     error
}

// entry is a file with what it is in messages, such as "the model".
type entry struct {
	what, path string
	info       fs.FileInfo // nil: it is not there yet
	written    bool
	over       []string // what it may be written over
}

// key finds the entries that may be the same file, where a command has thousands: by
// size where it is there (os.SameFile decides), else by its path.
type key struct {
	path string
	size int64
}

// Conflict says which file of a command would be lost.
type Conflict struct{ text string }

func (c *Conflict) Error() string { return c.text }

// Reads adds a file that is read; what names it in messages, such as "the model".
func (s *Set) Reads(what, path string) { s.add(entry{what: what, path: path}) }

// Writes adds a file that is written, which may take the place of what over lists.
// The same thing may be added twice.
func (s *Set) Writes(what, path string, over ...string) {
	s.add(entry{what: what, path: path, written: true, over: over})
}

// Err is the first *Conflict of files that were added, or nil.
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

// identify looks at the file; not ok: it is none that can be written over.
func (e *entry) identify() (key, bool) {
	info, err := os.Stat(e.path)
	if err == nil {
		e.info = info
		return key{size: info.Size()}, info.Mode().IsRegular()
	}
	return key{path: place(e.path)}, true
}

// place is the path of a file that is not there, the same for all spellings: its
// folder without links. A link that leads nowhere is replaced by what is written
// there, so it stands for itself.
func place(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" { // as a rule, A and a are one file
		path = strings.ToLower(path)
	}
	return path
}

func (e *entry) same(other *entry) bool {
	if e.info == nil || other.info == nil {
		return e.info == nil && other.info == nil // their keys are the same path
	}
	return os.SameFile(e.info, other.info)
}

// conflict says what is wrong with two uses of one file, if anything is.
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

// shown is a path, with the other one that names the same file where that is not
// plain to see.
func shown(e, other *entry) string {
	path := printable.Text(e.path)
	if filepath.Clean(e.path) != filepath.Clean(other.path) {
		path += fmt.Sprintf(" (the same file as %s)", printable.Text(other.path))
	}
	return path
}

// Same reports whether two paths name one file that can be written over, whether it
// is there yet or not.
func Same(a, b string) bool {
	x, y := entry{path: a}, entry{path: b}
	k, okX := x.identify()
	l, okY := y.identify()
	return okX && okY && (x.info != nil || k == l) && x.same(&y)
}
