package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// reserve allocates all blocks of a new file of the given size: without them, an
// access to the mapped file faults when the disk is full.
func reserve(f *os.File, bytes int64) error {
	all := unix.Fstore_t{Flags: unix.F_ALLOCATEALL, Posmode: unix.F_PEOFPOSMODE, Length: bytes}
	if unix.FcntlFstore(f.Fd(), unix.F_PREALLOCATE, &all) != nil {
		return writeZeros(f, bytes) // the file system may not support it; a full disk fails here
	}
	return f.Truncate(bytes)
}
