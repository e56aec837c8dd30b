//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package memory

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// process returns the peak, which macOS gives in bytes and the BSDs in KiB. What is
// resident now cannot be asked for without a C library's interfaces to the kernel.
func process() Use {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil || r.Maxrss < 0 {
		return Use{}
	}
	if runtime.GOOS == "darwin" {
		return Use{Peak: int64(r.Maxrss)}
	}
	return Use{Peak: int64(r.Maxrss) << 10}
}
