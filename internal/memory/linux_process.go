package memory

import (
	"io/fs"
	"math"
)

// linuxProcess reads the memory of this process from Linux's files below root. exe is
// the path of the program's file. ru_maxrss would not do for the peak: a process that
// was forked from a larger one inherits its figure.
func linuxProcess(root fs.FS, exe string) Use {
	u := Use{Peak: kibibytes(root, "VmHWM:"), Resident: kibibytes(root, "VmRSS:")}
	if u.Peak > 0 { // the second figure is a little younger
		u.Peak = max(u.Peak, u.Resident)
	}
	u.Program, u.Files = files(root, exe)
	return u
}

// kibibytes reads a field of proc/self/status, whose unit is KiB; 0 if there is none.
func kibibytes(root fs.FS, word string) int64 {
	n, ok := field(root, "proc/self/status", word)
	if !ok || n > math.MaxInt64>>10 {
		return 0
	}
	return n << 10
}

// files sums the resident pages of mapped files: of the program's own, exe, and of others.
func files(root fs.FS, exe string) (program, others int64) {
	for _, m := range mappings(root) {
		switch m.path {
		case "":
		case exe:
			program += m.rss
		default:
			others += m.rss
		}
	}
	return program, others
}
