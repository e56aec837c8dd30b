// Package atomicfile writes files that are there whole or not at all, also several
// that belong together, such as a model and its plan, whenever the process ends.
//
//	atomicfile.go  files in the making: temporary files beside their places
//	owner.go       whose temporary files those are
//	commit.go      putting files in their places, one or several
//	record.go      the record by which a killed Commit is finished
//	sweep.go       taking away what dead processes left
//
// # The names
//
// All names begin with [Prefix]; the files lie in the folder that they serve. Every
// process draws its own ID; KEY is derived from a file's name.
//
//	.onnxmem-ID.lock      locked while its process has temporary files there
//	.onnxmem-ID-N         a temporary file of that process
//	.onnxmem-KEY.commit   the record of a Commit, locked while that is under way
//	.onnxmem-KEY.claim    a lock that others take by way of [Claim]
//
// Locks end with their process, so a temporary file without a locked .lock file
// beside it is one that nobody will finish.
//
// # One file
//
// It is written under its temporary name, brought to the disk if it replaces
// another, and renamed. The rename is the moment at which the new file stands; a
// kill before it leaves the old one, and a temporary file for [Sweep].
//
// # Several files
//
// No system renames two files at once. [Commit] therefore goes through these
// steps, of which the third is the moment at which the new files count:
//
//  1. All files are written under their temporary names and, if one of them
//     replaces another file, are on the disk.
//  2. The lock of the record is taken, whose name is made of the first file's:
//     two processes never put the same files in place at the same time. What a
//     killed process left in the record is finished first (below).
//  3. The record gets one line with a checksum: of each file its temporary name,
//     its place, the size and time of what stands there and of what will.
//  4. Each file is renamed. The files that are replaced keep a second name until
//     all are: if a rename fails, a second line of the record says so, and those
//     that were replaced come back.
//  5. The record is removed.
//
// After a kill in steps 1 and 2, or in 3 before the line is whole, all files are
// the old ones. After a kill in 4 or 5, [Settle] finds the record, which nobody
// has locked, and renames the rest: all files are the new ones. Settle does only
// what the record still describes: if a file is neither what stood there before
// nor the new one, somebody has written it since, and nothing more is replaced.
// A kill in the middle of Settle leaves the same record to the next one. Readers
// call Settle before they open the first of the files ([onnx.Open] does); while a
// Commit is in progress, it waits. A reader that opens several of them through
// [Steady] never sees one new and another old.
//
// A record is obeyed only if this user owns it and the files that it names, and a
// temporary file is renamed only within its folder: a folder from elsewhere can
// replace nothing but what lies in it.
//
// Where the file system has no locks, there is no record: a kill between two
// renames leaves some files old, which the digest in a plan shows, and temporary
// files are never swept.
package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/onnxmem/onnxmem/internal/oserr"
)

// Prefix begins the names of temporary files.
const Prefix = ".onnxmem-"

// File is a file being written.
type File struct {
	*os.File // nil for a link
	tmp      string
	path     string
	name     string // path as given by the caller, for messages
	owner    *owner // of tmp; nil if the file is written in place
	replaces bool   // path already existed
}

// open holds every temporary file that is neither committed nor aborted.
var open struct {
	sync.Mutex
	files  map[*File]bool
	owners map[string]*owner // by folder
}

// Create begins a file that will be at path, with the given mode less the umask.
// A symbolic link at path is followed; a file that is replaced keeps its mode.
func Create(path string, mode os.FileMode) (*File, error) {
	name, replaces := path, false
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, cannot(name, "written", oserr.Reason(err))
		case info.IsDir():
			return nil, fmt.Errorf("%s: is a folder, expected a file name", name)
		case !info.Mode().IsRegular():
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return nil, cannot(name, "written", oserr.Writing(filepath.Dir(path), err))
			}
			return &File{File: f, path: path, name: name}, nil // a device or pipe: written in place
		}
		mode, replaces = info.Mode().Perm(), true
	}
	if err := oserr.Folder(filepath.Dir(path)); err != nil {
		return nil, cannot(name, "written", err)
	}
	var f *os.File
	p, err := begin(name, path, func(tmp string) (err error) {
		f, err = os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		return err
	})
	if err != nil {
		return nil, cannot(name, "written", oserr.Writing(filepath.Dir(path), err))
	}
	if replaces {
		// The umask has reduced the mode; a file system without modes is not an
		// error.
		_ = f.Chmod(mode)
	}
	p.File, p.replaces = f, replaces
	return p, nil
}

// Like is the mode of a new file with the content of a file of the given mode:
// users who may not read that file may not read this one.
func Like(mode os.FileMode) os.FileMode { return mode.Perm() | 0o200 }

// Link begins a hard link to from at path, where no file exists.
func Link(from, path string) (*File, error) {
	p, err := begin(path, path, func(tmp string) error { return os.Link(from, tmp) })
	if err != nil {
		return nil, cannot(path, "linked to "+from, oserr.Writing(filepath.Dir(path), err))
	}
	return p, nil
}

// begin begins a file at path; make creates it under its temporary name.
func begin(name, path string, make func(tmp string) error) (*File, error) {
	dir := filepath.Dir(path)
	sweepOnce(dir)
	open.Lock()
	defer open.Unlock()
	o, err := ownerOf(dir)
	if err != nil {
		return nil, err
	}
	p := &File{tmp: o.next(), path: path, name: name, owner: o}
	if err := make(p.tmp); err != nil {
		o.done()
		return nil, err
	}
	if open.files == nil {
		open.files = map[*File]bool{}
	}
	open.files[p] = true
	return p, nil
}

// finish closes the file and, if sync is set, flushes it to the disk.
func (p *File) finish(sync bool) error {
	if p.File == nil {
		return nil
	}
	var err error
	if sync && p.owner != nil {
		err = p.Sync()
	}
	return errors.Join(err, p.Close())
}

// Abort removes the temporary file. It does nothing after a Commit.
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
		p.forget()
	}
}

// forget is called when no file has the temporary name any more.
func (p *File) forget() {
	delete(open.files, p)
	p.owner.done()
}

// AbortAll removes every temporary file that is still open.
func AbortAll() {
	open.Lock()
	defer open.Unlock()
	for p := range open.files {
		p.abort()
	}
}

// Stop is AbortAll for a program that ends at once: afterwards no file is
// committed.
func Stop() {
	open.Lock() // and never unlocked
	for p := range open.files {
		p.abort()
	}
}
