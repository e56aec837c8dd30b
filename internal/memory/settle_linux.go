package memory

import (
	"io/fs"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// releaseProgram gives back the pages of the executable file that nobody can write.
func releaseProgram() {
	for _, s := range program() {
		// Nothing in these pages differs from the file (unwritten), from which they come back.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, s.from, s.end-s.from, unix.MADV_DONTNEED)
	}
}

// program returns where those pages are, which stays so: the list of all mappings is long, and
// read once. It keeps the system from mapping 2 MiB around each page that is needed. The system
// does so if the file lies in its cache in such pieces, as a program that was just written does:
// it takes 15 MiB more then.
var program = sync.OnceValue(func() []span {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil
	}
	list := unwritten(os.DirFS("/"), exe)
	for _, s := range list {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, s.from, s.end-s.from, unix.MADV_NOHUGEPAGE)
	}
	return list
})

type span struct{ from, end uintptr }

// unwritten lists the mappings of a file that can be read but not written, and of which no
// page was ever written: a relocated page would be lost.
func unwritten(root fs.FS, file string) (list []span) {
	for _, m := range mappings(root) {
		if m.path == file && file != "" && strings.HasPrefix(m.perms, "r-") && !m.written && m.end > m.from {
			list = append(list, span{m.from, m.end})
		}
	}
	return list
}
