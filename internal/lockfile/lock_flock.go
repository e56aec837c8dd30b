//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package lockfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// careful are flags for opening a name that anyone may have created: they follow
// no symbolic link and do not wait for a pipe.
const careful = unix.O_NOFOLLOW | unix.O_NONBLOCK

func lock(f *os.File, wait bool) (bool, error) {
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	err := flock(f, how)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func unlock(f *os.File) error { return flock(f, unix.LOCK_UN) }

func flock(f *os.File, how int) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		for {
			if failed = unix.Flock(int(fd), how); failed != unix.EINTR {
				return
			}
		}
	})
	if failed == unix.ENOLCK {
		failed = errors.ErrUnsupported // a network file system without a lock server
	}
	return errors.Join(err, failed)
}
