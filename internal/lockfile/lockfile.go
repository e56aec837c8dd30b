// Package lockfile provides locks between processes, which end with the process
// that holds them, however it ends: flock on Unix, LockFileEx on Windows. A lock
// belongs to the open file: two files opened by one process exclude each other,
// too, and child processes do not inherit it.
//
//	lockfile.go  locks of open files, and files that exist for their lock
//	lock_*.go    the same on each kind of system
package lockfile

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// Lock waits until no other open file of the same file is locked, and locks f. If
// the file system has no locks, the error is [errors.ErrUnsupported].
func Lock(f *os.File) error {
	_, err := lock(f, true)
	return wrap(f, err)
}

// TryLock is Lock without waiting; it reports whether f is locked now.
func TryLock(f *os.File) (bool, error) {
	ok, err := lock(f, false)
	return ok, wrap(f, err)
}

// Unlock ends the lock of f; closing f does so, too.
func Unlock(f *os.File) error { return wrap(f, unlock(f)) }

func wrap(f *os.File, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: cannot be locked: %w", f.Name(), err)
}

// Held is a locked file that exists for its lock. If its process is killed, the
// file stays, but unlocked.
type Held struct {
	*os.File
	path string
}

// Take waits for the lock of the file at path, and creates the file if necessary.
func Take(path string) (*Held, error) { return take(path, os.O_CREATE, true) }

// TryTake is Take without waiting: nil if another process holds the lock.
func TryTake(path string) (*Held, error) { return take(path, os.O_CREATE, false) }

// TakeOld is Take for an existing file: if there is none, the error is
// [os.ErrNotExist].
func TakeOld(path string) (*Held, error) { return take(path, 0, true) }

// TryTakeOld is TryTake for an existing file: if there is none, the error is
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
		// The previous holder may have removed the file after it was opened here:
		// then this is the lock of a file that nobody else will open.
		if Stands(f, path) {
			return &Held{f, path}, nil
		}
		f.Close()
	}
}

// open opens a regular file, but no symbolic link or pipe: a name that can be
// guessed must not lead elsewhere.
func open(path string, create int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|create|careful, 0o666)
	if errors.Is(err, os.ErrPermission) {
		// On most systems, read access is enough to lock another user's file.
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

// Stands reports whether f is still the file at path.
func Stands(f *os.File, path string) bool {
	there, errThere := os.Lstat(path)
	here, errHere := f.Stat()
	return errThere == nil && errHere == nil && os.SameFile(there, here)
}

// Release removes the file and ends the lock.
func (h *Held) Release() {
	if runtime.GOOS == "windows" {
		// Windows cannot remove open files; nor the next holder's file, then.
		h.Close()
		os.Remove(h.path)
		return
	}
	os.Remove(h.path)
	h.Close()
}
