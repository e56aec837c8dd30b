// Package readable opens files and pipes that can be read to their end. A path from
// a user may lead to anything: opening a pipe can wait for a writer forever, and
// opening a device can have side effects.
package readable

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/onnxmem/onnxmem/internal/oserr"
)

// File is a file or pipe that is being read.
type File struct {
	*os.File
	Info os.FileInfo
	some bool // at least one byte was read
}

// Open opens the file or pipe at path without waiting. It refuses folders, devices
// and sockets with a *KindError, before it opens them. Reading a pipe that has no
// writer is a *KindError, too. Error texts do not contain the path.
func Open(path string) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, oserr.Reason(err)
	}
	if err := refuse(info.Mode()); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, oserr.Reason(err)
	}
	if info, err = f.Stat(); err == nil { // the path may have been replaced meanwhile
		err = refuse(info.Mode())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &File{File: f, Info: info}, nil
}

// IsPipe reports whether the file is a pipe, which can only be read from start to
// end.
func (f *File) IsPipe() bool { return !f.Info.Mode().IsRegular() }

// Read reads from the file. If a pipe ends before its first byte, it has no writer:
// a *KindError.
func (f *File) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	if n == 0 && err == io.EOF && !f.some && f.IsPipe() {
		return 0, &KindError{"a pipe that nobody writes to"}
	}
	f.some = f.some || n > 0
	if err != nil && err != io.EOF {
		err = oserr.Reason(err)
	}
	return n, err
}

// refuse returns an error for anything but a regular file or a pipe.
func refuse(mode os.FileMode) error {
	if mode.IsRegular() || mode&os.ModeNamedPipe != 0 {
		return nil
	}
	return &KindError{Kind(mode)}
}

// KindError means that a path does not lead to a file that can be read.
type KindError struct{ Kind string }

func (e *KindError) Error() string { return fmt.Sprintf("is %s, expected a file", e.Kind) }

// Kind describes the type of a file for messages.
func Kind(mode os.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a file"
	case mode.IsDir():
		return "a folder"
	case mode&os.ModeNamedPipe != 0:
		return "a pipe"
	case mode&os.ModeSocket != 0:
		return "a socket"
	case mode&os.ModeDevice != 0:
		return "a device"
	}
	return "not a regular file"
}
