//go:build unix

package pages

import "golang.org/x/sys/unix"

// reserve maps inaccessible memory.
func reserve(bytes int) ([]byte, error) {
	return unix.Mmap(-1, 0, bytes, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

// open makes reserved pages readable and writable.
func open(b []byte) error { return protect(b, true) }

func protect(b []byte, write bool) error {
	flags := unix.PROT_READ
	if write {
		flags |= unix.PROT_WRITE
	}
	return unix.Mprotect(b, flags)
}

func release(b []byte) error { return unix.Munmap(b) }
