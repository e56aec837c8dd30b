//go:build js

package main

import (
	"errors"
	"io"
	"runtime/debug"
	"syscall/js"
)

// source is an object of JavaScript with a size and a function read(off, end) that returns a
// Uint8Array.
type source struct{ js.Value }

func (s source) size() int64 { return int64(s.Get("size").Float()) }

// ReadAt implements [io.ReaderAt].
func (s source) ReadAt(b []byte, off int64) (n int, err error) {
	defer func() { // the file was changed, or is gone
		if e, is := recover().(js.Error); is {
			err = errors.New(e.Value.Get("message").String())
		}
	}()
	const most = 16 << 20 // at once: the bytes are held twice
	for n < len(b) {
		got := js.CopyBytesToGo(b[n:], s.Call("read", off+int64(n), off+int64(n)+int64(min(most, len(b)-n))))
		if got == 0 {
			return n, io.EOF
		}
		n += got
	}
	return n, nil
}

// all reads the whole source.
func (s source) all() ([]byte, error) {
	b := make([]byte, s.size())
	_, err := s.ReadAt(b, 0)
	return b, err
}

// collect makes the collector run as often as if a file of that size, most of which is never
// read, took no memory: 4 GiB is all that a program has.
func collect(size int64) {
	const usual = 64 << 20
	debug.SetGCPercent(int(max(5, 100*usual/(usual+size))))
}
