package memory

import (
	"io/fs"
	"math"
	"strconv"
	"strings"
)

// mapping is a part of the address space of this process.
type mapping struct {
	from, end uintptr
	perms     string // such as r-xp
	path      string // of the file; "" for memory that belongs to none
	rss       int64  // bytes that are resident
	written   bool   // some page differs from the file
}

// mappings reads proc/self/smaps, where each mapping is a line like
//
//	7f5c1e400000-7f5c21e00000 r--s 00000000 fe:00 1311 /home/a/my model.onnx
//
// and then lines of figures such as "Rss:  512 kB".
func mappings(root fs.FS) (list []mapping) {
	lines(root, "proc/self/smaps", func(line string) bool {
		word, rest, _ := strings.Cut(line, " ")
		if !strings.HasSuffix(word, ":") {
			list = append(list, mappingOf(word, rest))
			return true
		}
		if len(list) == 0 {
			return true
		}
		m := &list[len(list)-1]
		switch word {
		case "Rss:":
			m.rss = figure(rest)
		case "Anonymous:":
			m.written = figure(rest) != 0
		}
		return true
	})
	return list
}

// mappingOf reads the line of a mapping: its addresses, and what follows.
func mappingOf(addresses, rest string) (m mapping) {
	from, end, _ := strings.Cut(addresses, "-")
	a, err := strconv.ParseUint(from, 16, 64)
	b, err2 := strconv.ParseUint(end, 16, 64)
	if err == nil && err2 == nil && a < b {
		m.from, m.end = uintptr(a), uintptr(b)
	}
	m.perms, rest, _ = strings.Cut(rest, " ")
	for range 3 { // the offset, the device and the number of the file
		_, rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
	}
	switch path := strings.TrimLeft(rest, " "); {
	case !strings.HasPrefix(path, "/"), path == "/dev/zero (deleted)", strings.HasPrefix(path, "/memfd:"):
		// anonymous, or [stack]; memory that is shared has the name of a file that does not exist
	default:
		m.path = path
	}
	return m
}

// figure reads a figure in KiB, such as "  512 kB", as bytes; 0 if it is none.
func figure(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>11 {
		return 0
	}
	return n << 10
}
