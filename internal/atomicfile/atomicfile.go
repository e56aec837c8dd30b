// Package atomicfile writes files that exist either whole or not at all, even if the
// process is killed. That holds for several files together, too, such as a model and
// its plan.
//
//	atomicfile.go  temporary files beside the files that they will become
//	owner.go       which process owns a temporary file
//	commit.go      Commit: renames one or several files
//	record.go      the record with which the next process completes a killed Commit
//	sweep.go       Sweep: removes the temporary files of dead processes
//
// # The names
//
// All names begin with [Prefix] and lie in the folder of the file that they serve.
// Every process draws its own ID; KEY is derived from a file's name.
//
//	.onnxmem-ID.lock      locked while its process has temporary files there
//	.onnxmem-ID-N         a temporary file of that process
//	.onnxmem-KEY.commit   the record of a Commit, locked while the Commit runs
//	.onnxmem-KEY.claim    a lock that callers take through [Claim]
//
// Locks end with their process. So a temporary file without a locked .lock file
// beside it belongs to a dead process.
//
// # One file
//
// The file is written under its temporary name, synced if it replaces another, and
// renamed. From the rename on, the new file is there. A kill before it leaves the old
// file, and a temporary file for [Sweep].
//
// # Several files
//
// No system renames two files at once. So [Commit] goes through these steps; after
// the third, the new files count:
//
//  1. Write all files under their temporary names and, if one of them replaces
//     another file, sync them.
//  2. Lock the record, whose name is derived from the first file's, so that two
//     processes never replace the same files at the same time. Complete the Commit
//     of a killed process first, if its record is there (below).
//  3. Write one line with a checksum into the record. It has, for each file, its
//     temporary name, its place, and the sizes and times of the old and the new file.
//  4. Rename each file. The old files keep a second name until all are replaced: if a
//     rename fails, Commit writes a second line into the record and restores them.
//  5. Remove the record.
//
// After a kill in steps 1 and 2, or in step 3 before the line is complete, all files
// are the old ones. After a kill in step 4 or 5, [Settle] finds the unlocked record
// and renames the remaining files: all files are the new ones. Settle follows the
// record only as far as it still applies: if a file is neither the old nor the new
// one, somebody has written it since, and Settle replaces nothing more. A kill during
// Settle leaves the record for the next call. Readers call Settle before they open the
// first of the files, as [onnx.Open] does; it waits while a Commit runs. A reader that
// opens several files through [Steady] never gets a mixture of new and old.
//
// Settle follows a record only if this user owns it and the files that it names, and
// renames a temporary file only within its folder. So a folder from somebody else can
// cause changes only inside itself.
//
// On a file system without locks there is no record. A kill between two renames then
// leaves some files old, which the digest in a plan reveals, and temporary files are
// never removed.
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
