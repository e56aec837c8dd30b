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
	return state{s.Size, s.Mtim.Nano()}, nil
}

// Drop gives the pages of the mapping back to the system: they are read again, from the file,
// when they are used.
func (f *File) Drop() {
	if f != nil && len(f.m) > 0 {
		_ = unix.Madvise(f.m, unix.MADV_DONTNEED) // without it, the process is larger
	}
}
