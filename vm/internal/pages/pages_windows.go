package pages

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// reserve reserves inaccessible memory.
func reserve(bytes int) ([]byte, error) {
	at, err := windows.VirtualAlloc(0, uintptr(bytes), windows.MEM_RESERVE, windows.PAGE_NOACCESS)
	if err != nil {
		return nil, err
	}
	// The memory is not Go's: only release frees it.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), bytes), nil
}

// open makes reserved pages readable and writable.
func open(b []byte) error {
	_, err := windows.VirtualAlloc(Address(b), uintptr(len(b)), windows.MEM_COMMIT, windows.PAGE_READWRITE)
	return err
}

func protect(b []byte, write bool) error {
	flags := uint32(windows.PAGE_READONLY)
	if write {
		flags = windows.PAGE_READWRITE
	}
	var old uint32
	return windows.VirtualProtect(Address(b), uintptr(len(b)), flags, &old)
}

func release(b []byte) error { return windows.VirtualFree(Address(b), 0, windows.MEM_RELEASE) }
