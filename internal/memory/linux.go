package memory

import (
	"bufio"
	"bytes"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// linux reads the free memory from Linux's files below root. It is built on all
// systems, so that its tests run on all of them.
func linux(root fs.FS) (int64, bool) {
	kib, ok := field(root, "proc/meminfo", "MemAvailable:")
	if !ok || kib > math.MaxInt64>>10 {
		return 0, false
	}
	least := kib << 10
	for _, g := range groups(root) {
		if room, limited := g.room(root); limited {
			least = min(least, room)
		}
	}
	return least, true
}

// group is a control group: its folder, and the names of its files, which differ
// between version 1 and version 2.
type group struct {
	dir                    string
	limit, usage, inactive string
}

// room returns how many bytes the group's processes can still allocate. The
// group's usage includes page cache, which the kernel reclaims when it needs
// memory, inactive pages first; so room counts inactive pages as free.
func (g *group) room(root fs.FS) (bytes int64, limited bool) {
	limit, ok := number(root, path.Join(g.dir, g.limit))
	if !ok { // "max", or no file, as in the root group
		return 0, false
	}
	used, ok := number(root, path.Join(g.dir, g.usage))
	if !ok {
		return limit, true
	}
	cache, _ := field(root, path.Join(g.dir, "memory.stat"), g.inactive)
	return max(limit-max(used-cache, 0), 0), true
}

// groups returns this process's control group and the groups that contain it. Each
// of them limits the process's memory.
func groups(root fs.FS) []group {
	var list []group
	for _, m := range mounts(root) {
		at, ok := m.below(root)
		if !ok {
			continue
		}
		for dir := at; ; dir = path.Dir(dir) {
			g := group{dir, "memory.max", "memory.current", "inactive_file"}
			if m.version == 1 {
				g = group{dir, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
			}
			list = append(list, g)
			if dir == m.dir || dir == "." {
				break
			}
		}
	}
	return list
}

// mount is a mounted hierarchy of control groups: version 2, or the hierarchy of
// version 1 that counts memory.
type mount struct {
	version int
	root    string // the group that is mounted
	dir     string // the folder where it is mounted
}

// mounts reads proc/self/mountinfo, whose lines are
//
//	35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
//
// with any number of fields before the hyphen (proc_pid_mountinfo(5)).
func mounts(root fs.FS) []mount {
	var list []mount
	lines(root, "proc/self/mountinfo", func(line string) bool {
		before, after, _ := strings.Cut(line, " - ")
		at, kind := strings.Fields(before), strings.Fields(after)
		if len(at) < 5 || len(kind) < 3 {
			return true
		}
		version := 0
		switch {
		case kind[0] == "cgroup2":
			version = 2
		case kind[0] == "cgroup" && contains(kind[2], "memory"):
			version = 1
		default:
			return true
		}
		list = append(list, mount{version, at[3], strings.TrimPrefix(at[4], "/")})
		return true
	})
	return list
}

// below returns the folder of this process's group by proc/self/cgroup, whose
// lines are "0::/a/b" (version 2) and "4:memory:/a/b" (version 1). The folder is
// relative to the mounted group. If the process's group lies outside the mounted
// hierarchy, below returns the mounted group: the nearest one it can read.
func (m *mount) below(root fs.FS) (dir string, ok bool) {
	lines(root, "proc/self/cgroup", func(line string) bool {
		part := strings.SplitN(line, ":", 3)
		if len(part) < 3 || m.version == 2 && part[0] != "0" || m.version == 1 && !contains(part[1], "memory") {
			return true
		}
		dir, ok = m.dir, true
		inner, within := strings.CutPrefix(part[2]+"/", strings.TrimSuffix(m.root, "/")+"/")
		if within && !strings.Contains(part[2], "..") {
			dir = path.Join(m.dir, inner)
		}
		return false
	})
	return dir, ok
}

// contains reports whether a comma-separated list contains a word.
func contains(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// number reads a file that holds one number. A number beyond int64 means that
// there is no limit: ok is false.
func number(root fs.FS, name string) (int64, bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil && n >= 0
}

// field reads the number that follows word on the line that begins with it.
func field(root fs.FS, name, word string) (n int64, ok bool) {
	lines(root, name, func(line string) bool {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != word {
			return true
		}
		v, err := strconv.ParseInt(f[1], 10, 64)
		n, ok = v, err == nil && v >= 0
		return false
	})
	return n, ok
}

// lines calls f for each line of a file until it returns false.
func lines(root fs.FS, name string, f func(line string) bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return
	}
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		if !f(s.Text()) {
			return
		}
	}
}
