package memory

import (
	"os"
	"runtime"
	"testing"
)

func TestLinuxProcess(t *testing.T) {
	const (
		status = "Name:\tonnxmem\nVmPeak:\t  999999 kB\nVmHWM:\t  152300 kB\nVmRSS:\t  140000 kB\n"
		smaps  = "01000000-02000000 rw-s 00000000 00:01 2047                              /dev/zero (deleted)\nRss:                  70000 kB\n" +
			"00400000-01000000 r-xp 00000000 fe:00 11      /usr/bin/onnxmem\nSize: 9 kB\nRss:                8000 kB\nPss: 1 kB\nVmFlags: rd ex mr mw me \n" +
			"01000000-02000000 rw-p 00000000 fe:00 11      /usr/bin/onnxmem\nRss:                 200 kB\n" +
			"c000000000-c000400000 rw-p 00000000 00:00 0 \nRss:                4096 kB\n" +
			"7f0000000000-7f0010000000 r--s 00000000 fe:00 12      /home/a/my model.onnx\nRss:               30000 kB\n" +
			"7f0020000000-7f0030000000 r--s 00000000 fe:00 13      /home/a/weights.bin (deleted)\nRss:                1000 kB\n" +
			"7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0       [stack]\nRss:                  12 kB\n"
	)
	for _, c := range []struct {
		name  string
		files map[string]string
		want  Use // KiB
	}{
		{"all figures", map[string]string{"proc/self/status": status, "proc/self/smaps": smaps}, Use{152300, 140000, 8200, 31000}},
		{"the mappings may not be read", map[string]string{"proc/self/status": status}, Use{152300, 140000, 0, 0}},
		{"no peak", map[string]string{"proc/self/status": "VmRSS:\t 5 kB\n"}, Use{0, 5, 0, 0}},
		{"no proc", map[string]string{}, Use{}},
	} {
		want := Use{c.want.Peak << 10, c.want.Resident << 10, c.want.Program << 10, c.want.Files << 10}
		if got := linuxProcess(texts(c.files), "/usr/bin/onnxmem"); got != want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, want)
		}
	}
}

// This machine reports the memory of the process, and pages that are touched count.
func TestProcess(t *testing.T) {
	before := Process()
	const size = 64 << 20
	b := make([]byte, size)
	for i := 0; i < size; i += os.Getpagesize() {
		b[i] = 1
	}
	after := Process()
	runtime.KeepAlive(b)
	switch runtime.GOOS {
	case "linux":
		if before.Program == 0 || after.Resident < before.Resident+size/2 {
			t.Errorf("got %+v, and after touching %d bytes %+v", before, size, after)
		}
		fallthrough
	case "darwin", "windows":
		if after.Peak < size || after.Peak > 1<<40 {
			t.Errorf("got a peak of %d bytes, want at least %d", after.Peak, size)
		}
	}
}
