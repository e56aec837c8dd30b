package lockfile

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

const careful = 0

// Locks of Windows prevent reading of the locked bytes, so this locks a byte
// beyond the end of any file.
func region() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1 << 30} }

func lock(f *os.File, wait bool) (bool, error) {
	how := uint32(windows.LOCKFILE_EXCLUSIVE_LOCK)
	if !wait {
		how |= windows.LOCKFILE_FAIL_IMMEDIATELY
	}
	err := control(f, func(h windows.Handle) error { return windows.LockFileEx(h, how, 0, 1, 0, region()) })
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}

func unlock(f *os.File) error {
	return control(f, func(h windows.Handle) error { return windows.UnlockFileEx(h, 0, 1, 0, region()) })
}

func control(f *os.File, do func(windows.Handle) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(h uintptr) { failed = do(windows.Handle(h)) })
	return errors.Join(err, failed)
}
