package exec

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
	"unsafe"

	"github.com/edsrzf/mmap-go"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/values"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// If bytes of a mapped file cannot be read, the run fails, and the process goes on.
func TestSwapFaults(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no file that is mapped can be cut off")
	}
	const bytes = 1 << 16
	f, err := os.Create(filepath.Join(t.TempDir(), "host"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(bytes); err != nil {
		t.Fatal(err)
	}
	m, err := mmap.MapRegion(f, bytes, mmap.RDWR, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Unmap()
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	queue := make(chan *transfer, 1)
	go transferAll(queue, &store.Block{Bytes: m, Base: unsafe.Pointer(unsafe.SliceData(m)), Name: "host"})
	defer close(queue)
	place := func(b []byte) *values.Tensor {
		x := &values.Tensor{}
		x.Type, x.Shape, x.At = graph.Uint8, []int{len(b)}, unsafe.Pointer(unsafe.SliceData(b))
		return x
	}
	x := &transfer{pool: work.New(1), from: place(make([]byte, bytes)), to: place(m), done: make(chan error, 1), started: true}
	queue <- x
	// A copy of many bytes may begin with those at the next multiple of 32.
	want := regexp.MustCompile(`^host: the host pool can no longer be used: byte \d{1,2} cannot be read or written \(is the disk full, or was the file truncated\?\)$`)
	if err := x.wait(); err == nil || !want.MatchString(err.Error()) || !errors.Is(err, ErrHost) {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
