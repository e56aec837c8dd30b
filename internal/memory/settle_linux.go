package memory

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseProgram gives back the pages of the executable file that nobody can write.
func releaseProgram() {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	list, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	for _, m := range unwritten(list, exe) {
		// Nothing in these pages differs from the file (unwritten), from which they come back.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.end-m.from, unix.MADV_DONTNEED)
	}
}

type span struct{ from, end uintptr }

// unwritten lists the mappings of a file that can be read but not written, and of which no
// page was ever written: a relocated page would be lost.
func unwritten(smaps []byte, file string) (list []span) {
	var at span
	lines := bufio.NewScanner(bytes.NewReader(smaps))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 6 && strings.Contains(fields[0], "-") {
			at = span{}
			from, end, _ := strings.Cut(fields[0], "-")
			a, err := strconv.ParseUint(from, 16, 64)
			b, err2 := strconv.ParseUint(end, 16, 64)
			if err == nil && err2 == nil && a < b && strings.HasPrefix(fields[1], "r-") && strings.Join(fields[5:], " ") == file {
				at = span{uintptr(a), uintptr(b)}
			}
		}
		if len(fields) >= 2 && fields[0] == "Anonymous:" && fields[1] == "0" && at.end > 0 {
			list = append(list, at)
		}
	}
	return list
}
