package vm

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// setAside takes that many bytes of the disk for a file, or fails where there are
// not as many. Where the file system cannot say, they are taken when they are
// written.
func setAside(f *os.File, bytes int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, bytes)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG) {
		return err
	}
	return nil
}
