//go:build unix

package mapped

import (
	"os"

	"golang.org/x/sys/unix"
)

// stateOf asks for the state without taking memory: a session asks at every run.
func stateOf(f *os.File) (state, error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &s); err != nil {
		return state{}, err
	}
	return state{s.Size, s.Mtim.Nano(), [2]uint64{uint64(s.Dev), uint64(s.Ino)}}, nil
}

// release gives whole pages of a mapping back.
func release(pages []byte) {
	_ = unix.Madvise(pages, unix.MADV_DONTNEED) // without it, the process is larger
}
