// Package readable opens what can be read to its end: files, and pipes that somebody
// writes to. A path may lead to anything; opening a pipe waits for a writer who may
// never come, and opening a device may do what nobody asked for.
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
	some bool // has been read
}

// Open opens the file or pipe at path. It never waits. Folders, devices and sockets
// are refused before they are opened, and so is a pipe that nobody has open for
// writing when it is read, by a *KindError. The text of an error has no path.
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
	if info, err = f.Stat(); err == nil { // it may be another by now
		err = refuse(info.Mode())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &File{File: f, Info: info}, nil
}

// IsPipe reports whether the file can be had only by reading it.
func (f *File) IsPipe() bool { return !f.Info.Mode().IsRegular() }

// Read reads from the file. A pipe that is at its end before its first byte has no
// writer.
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

// refuse fails for what is neither a file nor a pipe.
func refuse(mode os.FileMode) error {
	if mode.IsRegular() || mode&os.ModeNamedPipe != 0 {
		return nil
	}
	return &KindError{Kind(mode)}
}

// KindError says that a path leads to something else than a file.
type KindError struct{ Kind string }

func (e *KindError) Error() string { return fmt.Sprintf("is %s, expected a file", e.Kind) }

// Kind is what a file is, for messages.
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
	return "no regular file"
}
