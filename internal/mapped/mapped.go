// Package mapped maps files for reading, and turns faults on mapped memory into
// errors.
//
// If another process truncates a mapped file, an access to a missing page faults,
// which would end the process. Go turns the fault into a panic on goroutines that ask
// for that (debug.SetPanicOnFault). So every function that reads mapped bytes begins
// with
//
//	defer mapped.Recover(&err, mapped.Watch())
//
// on every goroutine that reads them. Two changes cause no fault: the bytes after the
// end of a file in its last page read as zeros, and bytes may be overwritten in place.
// Check detects both by the size and the time of the last change.
package mapped

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"unsafe"

	"github.com/edsrzf/mmap-go"

	"github.com/onnxmem/onnxmem/graph"
)

// File is a file mapped for reading. It stays open until Close.
type File struct {
	Bytes []byte

	name string
	f    *os.File
	m    mmap.MMap
	was  state
}

// state shows whether a file was changed.
type state struct {
	size int64
	time int64     // of the last change, in nanoseconds
	id   [2]uint64 // of the device and of the file there; 0: unknown
}

// files holds the mapped files, by the address of their first byte.
var files struct {
	sync.Mutex
	at map[uintptr]*File
}

// Map maps a whole file, which must not be empty. name is its name in errors.
// Close also closes f; if Map fails, f stays open.
func Map(f *os.File, name string) (*File, error) {
	was, err := stateOf(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	m, err := mmap.Map(f, mmap.RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot be mapped: %w", name, err)
	}
	file := &File{Bytes: m, name: name, f: f, m: m, was: was}
	files.Lock()
	defer files.Unlock()
	if files.at == nil {
		files.at = map[uintptr]*File{}
	}
	files.at[file.base()] = file
	return file, nil
}

func (f *File) base() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(f.m))) }

// Close unmaps and closes the file; a second call does nothing.
func (f *File) Close() error {
	if f == nil || f.m == nil {
		return nil
	}
	files.Lock()
	delete(files.at, f.base())
	files.Unlock()
	err := errors.Join(f.m.Unmap(), f.f.Close())
	f.m, f.Bytes = nil, nil
	return err
}

// ErrChanged is wrapped by the error of a file that was changed while it was in
// use.
var ErrChanged = errors.New("changed while it was in use")

// changed is an error that wraps ErrChanged, with a text of its own.
type changed struct{ text string }

func (c *changed) Error() string { return c.text }

// Unwrap returns ErrChanged.
func (c *changed) Unwrap() error { return ErrChanged }

func (f *File) changed(format string, args ...any) error {
	return &graph.Error{File: f.name, Offset: -1, Err: &changed{fmt.Sprintf(format, args...)}}
}

// Check fails, with an error of type *graph.Error, if the file has changed since
// it was mapped: what was read from it may be wrong.
func (f *File) Check() error {
	if f == nil || f.m == nil {
		return nil
	}
	is, err := stateOf(f.f)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", f.name, err)
	case is.size < f.was.size:
		return f.changed("was cut to %d bytes while it was in use (expected %d)", is.size, f.was.size)
	case is != f.was:
		return f.changed("was written while it was in use: what was read of it may be wrong")
	}
	return nil
}

// fault is the error of a byte that could not be read.
func (f *File) fault(off int64) error {
	is, err := stateOf(f.f)
	switch {
	case err != nil:
		return f.changed("byte %d can no longer be read: %v", off, err)
	case is.size < f.was.size:
		return f.changed("byte %d can no longer be read: the file was cut to %d bytes while it was in use (expected %d)", off, is.size, f.was.size)
	case is != f.was:
		return f.changed("byte %d could not be read: the file was written while it was in use", off)
	}
	return f.changed("byte %d can no longer be read: an error of the disk or of the network that it lies on", off)
}

// Drop gives the pages of the mapping back to the system.
func (f *File) Drop() {
	if f != nil {
		Release(unsafe.Pointer(unsafe.SliceData(f.m)), len(f.m))
	}
}

// Release gives the pages of some bytes back to the system, which reads them from the file
// again when they are used: the process is smaller until then. It does nothing for bytes
// that lie in no mapped file, and to pages that these bytes do not fill.
func Release(at unsafe.Pointer, bytes int) {
	files.Lock()
	defer files.Unlock()
	f, from := find(uintptr(at))
	if f == nil {
		return
	}
	page := uintptr(os.Getpagesize())
	end := min(from+uintptr(bytes), uintptr(len(f.m)))
	if end < uintptr(len(f.m)) { // the last page of the file is whole
		end = end / page * page
	}
	if from = (from + page - 1) / page * page; from < end {
		release(f.m[from:end])
	}
}

// find returns the mapped file in which an address lies, and the byte of the file there; nil
// if it lies in none. The lock of files must be held.
func find(at uintptr) (f *File, off uintptr) {
	for base, f := range files.at {
		if off := at - base; off < uintptr(len(f.m)) {
			return f, off
		}
	}
	return nil, 0
}

// Holds reports whether an address lies in a mapped file.
func Holds(at unsafe.Pointer) bool {
	files.Lock()
	defer files.Unlock()
	f, _ := find(uintptr(at))
	return f != nil
}

// Place is a byte of a file: two mappings of the same file have it at two addresses.
type Place struct {
	file state
	off  int64
}

// PlaceOf returns the byte of a mapped file at an address; false if it lies in none, or if
// the system does not tell files apart.
func PlaceOf(at unsafe.Pointer) (p Place, ok bool) {
	files.Lock()
	defer files.Unlock()
	f, off := find(uintptr(at))
	if f == nil {
		return Place{}, false
	}
	return Place{f.was, int64(off)}, f.was.id != [2]uint64{}
}

// Watch turns faults on this goroutine into panics. It returns the previous
// setting, for Recover.
func Watch() (was bool) { return debug.SetPanicOnFault(true) }

// Recover, which must be deferred, sets err if a mapped file caused the panic.
// Other panics continue.
func Recover(err *error, was bool) {
	debug.SetPanicOnFault(was)
	r := recover()
	if r == nil {
		return
	}
	e := ErrorOf(r)
	if e == nil {
		panic(r)
	}
	*err = e
}

// ErrorOf returns the error of a mapped file that caused the panic with value r;
// nil if none did.
func ErrorOf(r any) error {
	err, ok := r.(error)
	if !ok {
		return nil
	}
	var e interface {
		runtime.Error
		Addr() uintptr
	}
	switch {
	case errors.Is(err, ErrChanged):
		return err
	case !errors.As(err, &e): // another goroutine may have passed it on
		return nil
	}
	files.Lock()
	defer files.Unlock()
	if f, off := find(e.Addr()); f != nil {
		return f.fault(int64(off))
	}
	return nil
}

// Raise must be deferred by a function without an error result. If a mapped file
// caused the panic, it panics with an error of type *graph.Error, which Recover
// handles. Other panics continue.
func Raise(was bool) {
	debug.SetPanicOnFault(was)
	if r := recover(); r != nil {
		if e := ErrorOf(r); e != nil {
			r = e
		}
		panic(r)
	}
}

// Unchanged gives err if it tells what happened to a mapped file, else what the
// state of the source tells, else err. It ends what read from the source: a write
// from a mapping, or a copy from its file, fails without a fault where the file
// was cut.
func Unchanged(source *graph.Source, err error) error {
	if errors.Is(err, ErrChanged) {
		return err
	}
	return cmp.Or(source.Unchanged(), err)
}
