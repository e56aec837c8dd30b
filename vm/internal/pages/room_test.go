package pages

import "testing"

// Address space takes no memory before it is opened, may be larger than the memory, and
// keeps its address and its content as more of it is opened.
func TestRoom(t *testing.T) {
	r, err := Reserve(1 << 40)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Open(10); err != nil {
		t.Fatal(err)
	}
	b := r.Bytes(10)
	b[9] = 7
	if err := r.Open(int64(3*Size) + 1); err != nil {
		t.Fatal(err)
	}
	more := r.Bytes(int64(3*Size) + 1)
	if &more[0] != &b[0] || more[9] != 7 || more[3*Size] != 0 {
		t.Errorf("opening more moved or changed what was open")
	}
	more[3*Size] = 1
	if at := fault(t, func() { r.m[4*Size] = 1 }); at != Address(r.m)+uintptr(4*Size) {
		t.Errorf("a write behind what is open faults at %#x, want %#x", at, Address(r.m)+uintptr(4*Size))
	}
	if err := r.Open(1<<40 + 1); err == nil {
		t.Error("more was opened than had been reserved")
	}
	if err := r.Release(); err != nil {
		t.Fatal(err)
	}
}
