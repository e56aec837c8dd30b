package vm

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// reserve takes all blocks that a new file of that many bytes needs: a mapped file
// without them faults when its disk is full.
func reserve(f *os.File, bytes int64) error {
	for off := int64(0); off < bytes; {
		n := min(bytes-off, reserveBytes)
		switch err := unix.Fallocate(int(f.Fd()), 0, off, n); {
		case err == nil:
			off += n
		case errors.Is(err, unix.EINTR): // what of the part was taken is given back, or is there at the next call
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return writeZeros(f, bytes)
		default:
			return err
		}
	}
	return nil
}
