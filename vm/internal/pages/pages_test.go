package pages

import (
	"runtime"
	"runtime/debug"
	"testing"
	"unsafe"
)

// fault returns the address at which f faults, or 0 if it does not.
func fault(t *testing.T, f func()) (at uintptr) {
	t.Helper()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			at = r.(interface {
				runtime.Error
				Addr() uintptr
			}).Addr()
		}
	}()
	f()
	return 0
}

// Runs can be used to the last byte; the bytes beside them cannot be read, and a sealed
// run cannot be written.
func TestWalls(t *testing.T) {
	for range 2 { // the second time it is the same block
		b, err := Take(1, 3)
		if err != nil {
			t.Fatal(err)
		}
		for i, pages := range []int{1, 3} {
			run := b.Run(i)
			if len(run) != pages*Size {
				t.Fatalf("run %d has %d bytes, want %d pages", i, len(run), pages)
			}
			for k := range run {
				run[k] = byte(k)
			}
			var sum byte
			peek := func(off int) uintptr {
				return fault(t, func() { sum += *(*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(run)), off)) })
			}
			for _, off := range []int{-1, len(run)} {
				if got, want := peek(off), Address(run)+uintptr(off); got != want {
					t.Errorf("run %d, byte %d: fault at %#x, want %#x", i, off, got, want)
				}
			}
			if err := b.Seal(i); err != nil {
				t.Fatal(err)
			}
			if got := fault(t, func() { run[7] = 1 }); got != Address(run)+7 {
				t.Errorf("run %d: a write to byte 7 of a sealed run: fault at %#x, want %#x", i, got, Address(run)+7)
			}
			if err := b.Unseal(i); err != nil {
				t.Fatal(err)
			}
			run[7] = 1
		}
		if err := b.Give(); err != nil {
			t.Fatal(err)
		}
	}
}

// Freed blocks beyond the bound are not kept.
func TestKept(t *testing.T) {
	var list []*Block
	for range 5 {
		b, err := Take(mostKept / Size / 4)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, b)
	}
	for _, b := range list {
		if err := b.Give(); err != nil {
			t.Fatal(err)
		}
	}
	if kept.bytes > mostKept {
		t.Errorf("%d bytes are kept, want at most %d", kept.bytes, mostKept)
	}
}

func BenchmarkTake(b *testing.B) {
	for range b.N {
		p, err := Take(1)
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Give(); err != nil {
			b.Fatal(err)
		}
	}
}
