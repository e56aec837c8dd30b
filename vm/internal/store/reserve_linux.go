package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// reserve allocates all blocks of a new file of the given size: without them, an
// access to the mapped file faults when the disk is full.
func reserve(f *os.File, bytes int64) error {
	for off := int64(0); off < bytes; {
		n := min(bytes-off, reserveBytes)
		switch err := unix.Fallocate(int(f.Fd()), 0, off, n); {
		case err == nil:
			off += n
		case errors.Is(err, unix.EINTR): // the next call repeats the part
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return writeZeros(f, bytes)
		default:
			return err
		}
	}
	return nil
}
