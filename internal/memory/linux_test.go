package memory

import (
	"runtime"
	"testing"
	"testing/fstest"
)

// texts makes a file system from a map of paths to texts.
func texts(list map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, text := range list {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

const (
	meminfo = "MemTotal:       16384 kB\nMemFree:         1024 kB\nMemAvailable:    8192 kB\nSwapFree: 99999 kB\n"
	v2      = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup rw\n"
	v1      = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n" +
		"32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n" +
		"35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw,relatime shared:7 - cgroup cgroup rw,memory\n"
)

func TestLinux(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64 // KiB; -1: unknown
	}{
		{"a machine without control groups", map[string]string{"proc/meminfo": meminfo}, 8192},
		{"an old kernel does not say", map[string]string{"proc/meminfo": "MemTotal: 16384 kB\n"}, -1},
		{"no proc", map[string]string{}, -1},
		{"a container sees its own group as the root", map[string]string{
			"proc/meminfo": meminfo, "proc/self/mountinfo": v2, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "4194304\n", "sys/fs/cgroup/memory.current": "1048576\n",
		}, 3072},
		{"inactive page cache is free", map[string]string{
			"proc/meminfo": meminfo, "proc/self/mountinfo": v2, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "4194304\n", "sys/fs/cgroup/memory.current": "4194304\n",
			"sys/fs/cgroup/memory.stat": "anon 1\nfile 2\ninactive_file 524288\nactive_file 1048576\n",
		}, 512},
		{"max is no limit", map[string]string{
			"proc/meminfo": meminfo, "proc/self/mountinfo": v2, "proc/self/cgroup": "0::/a\n",
			"sys/fs/cgroup/a/memory.max": "max\n", "sys/fs/cgroup/a/memory.current": "4194304\n",
		}, 8192},
		{"the parent group has a lower limit", map[string]string{
			"proc/meminfo": meminfo, "proc/self/mountinfo": v2, "proc/self/cgroup": "0::/pod/job\n",
			"sys/fs/cgroup/pod/job/memory.max": "max\n", "sys/fs/cgroup/pod/job/memory.current": "0\n",
			"sys/fs/cgroup/pod/memory.max": "2097152\n", "sys/fs/cgroup/pod/memory.current": "1048576\n",
		}, 1024},
		{"more in use than the limit", map[string]string{
			"proc/meminfo": meminfo, "proc/self/mountinfo": v2, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "1024\n", "sys/fs/cgroup/memory.current": "2048\n",
		}, 0},
		{"version 1, only its own group is mounted", map[string]string{
			"proc/meminfo": meminfo, "proc/self/mountinfo": v1, "proc/self/cgroup": "5:cpu:/docker/abc\n4:memory:/docker/abc\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "4194304\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "2097152\n",
			"sys/fs/cgroup/memory/memory.stat": "inactive_file 1\ntotal_inactive_file 1048576\n",
		}, 3072},
		{"version 1, a group below the mounted one", map[string]string{
			"proc/meminfo": meminfo, "proc/self/mountinfo": v1, "proc/self/cgroup": "4:memory:/docker/abc/x\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "1048576\n", "sys/fs/cgroup/memory/x/memory.usage_in_bytes": "0\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "4096\n",
		}, 1024},
		{"a group outside the mounted hierarchy: the mounted one counts", map[string]string{
			"proc/meminfo": meminfo, "proc/self/mountinfo": v2, "proc/self/cgroup": "0::/../other\n",
			"sys/fs/cgroup/memory.max": "1048576\n", "sys/fs/cgroup/memory.current": "0\n",
		}, 1024},
		{"both versions: version 1 counts", map[string]string{
			"proc/meminfo": meminfo, "proc/self/mountinfo": v1 + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			"proc/self/cgroup":                           "4:memory:/docker/abc\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "2097152\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "0\n",
		}, 2048},
		{"a text that is not a number is no limit", map[string]string{
			"proc/meminfo": meminfo, "proc/self/mountinfo": v2, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "\n", "sys/fs/cgroup/memory.current": "-3\n",
		}, 8192},
	} {
		got, ok := linux(texts(c.files))
		if c.want < 0 && ok || c.want >= 0 && (!ok || got != c.want<<10) {
			t.Errorf("%s: got %d KiB, %v, want %d", c.name, got>>10, ok, c.want)
		}
	}
}

// This machine reports its free memory, and the figure is plausible.
func TestFree(t *testing.T) {
	n, ok := Free()
	switch runtime.GOOS {
	case "linux", "darwin", "windows":
		if !ok || n < 1<<20 || n > 1<<50 {
			t.Errorf("got %d bytes, known %v", n, ok)
		}
	}
}
