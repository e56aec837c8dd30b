package memory

import (
	"io/fs"
	"math"
	"strconv"
	"strings"
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

// files sums the resident pages of mapped files by proc/self/smaps, where each mapping is
// a line like
//
//	7f5c1e400000-7f5c21e00000 r--s 00000000 fe:00 1311 /home/a/my model.onnx
//
// and then lines of figures such as "Rss:  512 kB".
func files(root fs.FS, exe string) (program, others int64) {
	var at *int64
	lines(root, "proc/self/smaps", func(line string) bool {
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case !strings.HasSuffix(word, ":"): // a mapping, whose path begins after five fields
			at = nil
			for range 4 {
				_, rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
			}
			switch path := strings.TrimLeft(rest, " "); {
			case !strings.HasPrefix(path, "/"), path == "/dev/zero (deleted)", strings.HasPrefix(path, "/memfd:"):
				// anonymous, or [stack]; memory that is shared has the name of a file that does not exist
			case path == exe && exe != "":
				at = &program
			default:
				at = &others
			}
		case word == "Rss:" && at != nil:
			if n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64); err == nil && n >= 0 && n <= math.MaxInt64>>11 {
				*at += n << 10
			}
		}
		return true
	})
	return program, others
}
