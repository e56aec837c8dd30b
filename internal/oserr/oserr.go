// Package oserr turns errors of the operating system into messages for a user: what
// is wrong with the file that the user named, and what to do about it.
package oserr

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/onnxmem/onnxmem/internal/printable"
)

// Error is an error of the operating system. Its text contains neither the system
// call nor its path, which may belong to a temporary file; the caller adds the name
// that the user knows.
type Error struct {
	text string
	err  error
}

func (e *Error) Error() string { return e.text }

// Unwrap returns the system's error.
func (e *Error) Unwrap() error { return e.err }

// Reason says why a file cannot be read, or, for callers that know only the error,
// why it cannot be written.
func Reason(err error) error { return reason(err, "") }

// Writing says why a file in a folder cannot be written.
func Writing(folder string, err error) error { return reason(err, folder) }

// reason implements Reason (folder is "") and Writing.
func reason(err error, folder string) error {
	inner := cause(err)
	if told := (*Error)(nil); errors.As(err, &told) {
		return told
	}
	text := inner.Error()
	switch {
	case is(inner, full...):
		text = "no space left on its disk: make room there, or choose another place"
	case errors.Is(inner, fs.ErrNotExist) && folder == "":
		text = "not found"
	case errors.Is(inner, syscall.ENOTDIR):
		text = "not found: a part of its path is a file, expected a folder"
	case errors.Is(inner, syscall.EISDIR):
		text = "is a folder, expected a file"
	case errors.Is(inner, syscall.EDQUOT):
		text = "the disk quota is used up: make room there, or choose another place"
	case errors.Is(inner, syscall.EFBIG):
		text = "larger than a file may be here (ulimit -f, or the file system): choose another place"
	case is(inner, readOnly...):
		text = "its disk is read-only: choose another place"
	case errors.Is(inner, syscall.ENAMETOOLONG):
		text = "its name is too long for the file system"
	case errors.Is(inner, syscall.EMFILE), errors.Is(inner, syscall.ENFILE):
		text = "too many files are open (ulimit -n)"
	case errors.Is(inner, syscall.ELOOP):
		text = "symbolic links lead in a circle"
	case errors.Is(inner, fs.ErrPermission) && folder != "":
		text = "permission denied: no right to create files in " + printable.Text(folder) + ": choose another place"
	case errors.Is(inner, fs.ErrPermission):
		text = "permission denied: no right to read it"
	}
	return &Error{text, err}
}

// Folder returns nil if a folder exists, and otherwise an error that says why no
// files can be created in it.
func Folder(folder string) error {
	if file := fileWithin(folder); file != "" {
		return &Error{printable.Text(file) + ": is a file, expected a folder", syscall.ENOTDIR}
	}
	_, err := os.Stat(folder)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return &Error{printable.Text(folder) + ": no such folder: create it first", err}
	}
	return &Error{printable.Text(folder) + ": " + reason(err, folder).Error(), err}
}

// MakeFolder creates a folder and its parents unless they exist.
func MakeFolder(folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		if file := fileWithin(folder); file != "" {
			return &Error{printable.Text(file) + ": is a file, expected a folder", err}
		}
		return &Error{printable.Text(folder) + ": cannot be created: " + reason(err, filepath.Dir(folder)).Error(), err}
	}
	return nil
}

// fileWithin returns the longest existing prefix of a folder's path if that is a
// file, and "" otherwise.
func fileWithin(folder string) string {
	for {
		if info, err := os.Stat(folder); err == nil {
			if info.IsDir() {
				return ""
			}
			return folder
		}
		up := filepath.Dir(folder)
		if up == folder {
			return ""
		}
		folder = up
	}
}

// cause returns the error inside those that add a system call or a path.
func cause(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	var call *os.SyscallError
	for {
		switch {
		case errors.As(err, &path):
			err = path.Err
		case errors.As(err, &link):
			err = link.Err
		case errors.As(err, &call):
			err = call.Err
		default:
			return err
		}
	}
}

func is(err error, kinds ...error) bool {
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}
