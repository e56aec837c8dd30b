package vm

import (
	"os"

	"golang.org/x/sys/unix"
)

// reserve takes all blocks that a new file of that many bytes needs: a mapped file
// without them faults when its disk is full.
func reserve(f *os.File, bytes int64) error {
	all := unix.Fstore_t{Flags: unix.F_ALLOCATEALL, Posmode: unix.F_PEOFPOSMODE, Length: bytes}
	if unix.FcntlFstore(f.Fd(), unix.F_PREALLOCATE, &all) != nil {
		return writeZeros(f, bytes) // the file system may not know it; a full disk says so here
	}
	return f.Truncate(bytes)
}
