// Package lockfile keeps processes from getting in each other's way, by locks
// that end with the process that holds them, however it ends: flock on Unix,
// LockFileEx on Windows. A lock belongs to the open file: two files that one
// process has opened exclude each other, too, and children do not inherit it.
//
//	lockfile.go  locks of open files, and files that stand for a lock
//	lock_*.go    the same on each kind of system
package lockfile

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// Lock waits until no other open file of the same file is locked, and locks f.
// Where the file system has no locks the error is [errors.ErrUnsupported].
func Lock(f *os.File) error {
	_, err := lock(f, true)
	return wrap(f, err)
}

// TryLock is Lock that does not wait, and reports whether f is locked now.
func TryLock(f *os.File) (bool, error) {
	ok, err := lock(f, false)
	return ok, wrap(f, err)
}

// Unlock ends the lock of f; closing f does, too.
func Unlock(f *os.File) error { return wrap(f, unlock(f)) }

func wrap(f *os.File, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: cannot be locked: %w", f.Name(), err)
}

// Held is a file that is there for its lock. One whose process was killed stays,
// not locked.
type Held struct {
	*os.File
	path string
}

// Take waits for the lock of the file at path, and makes the file if need be.
func Take(path string) (*Held, error) { return take(path, os.O_CREATE, true) }

// TryTake is Take that does not wait: nil if another holds the lock.
func TryTake(path string) (*Held, error) { return take(path, os.O_CREATE, false) }

// TakeOld is Take for a file that is there: without one the error is
// [os.ErrNotExist].
func TakeOld(path string) (*Held, error) { return take(path, 0, true) }

// TryTakeOld is TryTake for a file that is there: without one the error is
// [os.ErrNotExist].
func TryTakeOld(path string) (*Held, error) { return take(path, 0, false) }

func take(path string, create int, wait bool) (*Held, error) {
	for {
		f, err := open(path, create)
		if err != nil {
			return nil, err
		}
		ok, err := lock(f, wait)
		if err != nil || !ok {
			f.Close()
			return nil, wrap(f, err)
		}
		// Whoever held the lock before may have removed the file since it was
		// opened here: then the lock is that of a file that nobody will open.
		if Stands(f, path) {
			return &Held{f, path}, nil
		}
		f.Close()
	}
}

// open opens a regular file, which symbolic links and pipes are not: names that
// can be guessed must not lead elsewhere, or nowhere.
func open(path string, create int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|create|careful, 0o666)
	if errors.Is(err, os.ErrPermission) {
		// Reading is enough for a lock on most systems: the file of another user.
		if g, errRead := os.OpenFile(path, os.O_RDONLY|careful, 0); errRead == nil {
			f, err = g, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("%s: expected a regular file to lock", path)
	}
	return f, nil
}

// Stands reports whether f is the file that stands at path now.
func Stands(f *os.File, path string) bool {
	there, errThere := os.Lstat(path)
	here, errHere := f.Stat()
	return errThere == nil && errHere == nil && os.SameFile(there, here)
}

// Release removes the file and ends the lock.
func (h *Held) Release() {
	if runtime.GOOS == "windows" {
		// Open files cannot be removed there; nor can the next holder's, then.
		h.Close()
		os.Remove(h.path)
		return
	}
	os.Remove(h.path)
	h.Close()
}
