package mapped

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

// resident is the memory of the mapping that begins at an address, in bytes.
func resident(t *testing.T, at unsafe.Pointer) int {
	t.Helper()
	list, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip("this system does not list the mappings")
	}
	begin := strconv.FormatUint(uint64(uintptr(at)), 16) + "-"
	_, list, found := bytes.Cut(list, []byte("\n"+begin))
	if !found {
		t.Fatalf("no mapping begins at %s", begin)
	}
	_, list, _ = bytes.Cut(list, []byte("\nRss:"))
	n, err := strconv.Atoi(strings.Fields(string(list[:40]))[0])
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// What is released is no longer in memory, and reads as before.
func TestRelease(t *testing.T) {
	const size = 16 << 20
	path := filepath.Join(t.TempDir(), "w.bin")
	if err := os.WriteFile(path, bytes.Repeat([]byte{3, 4}, size/2), 0o666); err != nil {
		t.Fatal(err)
	}
	h, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Map(h, "w.bin")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	base := unsafe.Pointer(unsafe.SliceData(f.Bytes))
	whole := func() {
		t.Helper()
		if n, err := sum(f.Bytes); n != 7*size/2 || err != nil {
			t.Fatal(n, err)
		}
	}
	whole()
	all := 0
	if runtime.GOOS == "linux" {
		if all = resident(t, base); all != size {
			t.Skipf("%d of %d bytes are in memory after they were read", all, size)
		}
	}
	var elsewhere [8]byte
	Release(unsafe.Pointer(&elsewhere), len(elsewhere)) // in no mapped file
	Release(unsafe.Add(base, 1), 10)                    // within a page
	Release(unsafe.Add(base, size/2+1), size)           // beyond the end, from within a page on
	if all > 0 {
		if n := resident(t, base); n < size/2 || n > size/2+pages {
			t.Errorf("%d bytes are in memory, expected about %d", n, size/2)
		}
	}
	whole()
	f.Drop()
	if all > 0 {
		if n := resident(t, base); n != 0 {
			t.Errorf("%d bytes are in memory, expected none", n)
		}
	}
	whole()
}
