//go:build unix

package atomicfile

import (
	"os"
	"syscall"
)

// mine reports whether this user owns a file.
func mine(info os.FileInfo) bool {
	sys, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Geteuid()
}
