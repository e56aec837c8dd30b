package mapped

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/onnxmem/onnxmem/graph"
)

const pages = 1 << 16 // of any machine

// open maps a file of so many bytes, each 7.
func open(t *testing.T, bytesOf int) (path string, f *File) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file cannot be cut")
	}
	path = filepath.Join(t.TempDir(), "w.bin")
	if err := os.WriteFile(path, bytes.Repeat([]byte{7}, bytesOf), 0o666); err != nil {
		t.Fatal(err)
	}
	h, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if f, err = Map(h, "w.bin"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return path, f
}

// sum reads all of b.
func sum(b []byte) (n int, err error) {
	defer Recover(&err, Watch())
	for _, x := range b {
		n += int(x)
	}
	return n, nil
}

// A byte that is gone is an error, wherever it is read.
func TestCut(t *testing.T) {
	path, f := open(t, 4*pages)
	if n, err := sum(f.Bytes); n != 7*4*pages || err != nil {
		t.Fatal(n, err)
	}
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, pages); err != nil {
		t.Fatal(err)
	}
	const want = "w.bin: byte 65536 can no longer be read: the file was cut to 65536 bytes while it was in use (expected 262144)"
	here := func() error { _, err := sum(f.Bytes); return err }
	for name, read := range map[string]func() error{
		"here": here,
		"on another goroutine": func() error {
			c := make(chan error)
			go func() { c <- here() }()
			return <-c
		},
		"by a copy": func() (err error) {
			defer Recover(&err, Watch())
			copy(make([]byte, pages+1), f.Bytes)
			return nil
		},
		"within a function without an error": func() (err error) {
			defer Recover(&err, Watch())
			func() {
				defer Raise(Watch())
				copy(make([]byte, pages+1), f.Bytes)
			}()
			return nil
		},
	} {
		err := read()
		var e *graph.Error
		if err == nil || err.Error() != want || !errors.Is(err, ErrChanged) || !errors.As(err, &e) {
			t.Errorf("%s: got %v\nwant %s", name, err, want)
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(f.Close(), f.Check()); err != nil {
		t.Error(err)
	}
}

// What a cut leaves within a page, and what is overwritten, is no fault, but found.
func TestChanged(t *testing.T) {
	path, f := open(t, pages)
	if err := os.Truncate(path, pages-1); err != nil {
		t.Fatal(err)
	}
	if _, err := sum(f.Bytes); err != nil {
		t.Errorf("the last page can be read: %v", err)
	}
	const cut = "w.bin: was cut to 65535 bytes while it was in use (expected 65536)"
	if err := f.Check(); err == nil || err.Error() != cut {
		t.Errorf("got %v\nwant %s", err, cut)
	}
	path, f = open(t, 10)
	if err := os.Chtimes(path, time.Time{}, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	const written = "w.bin: was written while it was in use: what was read of it may be wrong"
	if err := f.Check(); err == nil || err.Error() != written {
		t.Errorf("got %v\nwant %s", err, written)
	}
	source := &graph.Source{Check: f.Check}
	if err := Unchanged(source, os.ErrClosed); !errors.Is(err, ErrChanged) {
		t.Errorf("got %v", err)
	}
}

// A file that another one takes the place of is as it was.
func TestReplaced(t *testing.T) {
	path, f := open(t, pages)
	if err := os.WriteFile(path+".new", []byte("short"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	if n, err := sum(f.Bytes); n != 7*pages || err != nil {
		t.Error(n, err)
	}
	if err := f.Check(); err != nil {
		t.Error(err)
	}
}

// Another panic goes on.
func TestRecover(t *testing.T) {
	for _, f := range []func(){
		func() { panic("ours") },
		func() { var p *int; *p = 1 },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was taken")
				}
			}()
			var err error
			defer Recover(&err, Watch())
			f()
		}()
	}
}
