package store

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// flags returns the flags of the mapping of an address in this process.
func flags(t *testing.T, at uintptr) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	found := ""
	head := regexp.MustCompile(`^([0-9a-f]+)-([0-9a-f]+) `)
	inside := false
	for line := range strings.Lines(string(text)) {
		if m := head.FindStringSubmatch(line); m != nil {
			inside = number(t, m[1]) <= at && at < number(t, m[2])
		} else if rest, is := strings.CutPrefix(line, "VmFlags:"); is && inside {
			found = rest
		}
	}
	return strings.Fields(found)
}

func number(t *testing.T, text string) uintptr {
	t.Helper()
	n, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return uintptr(n)
}

// A large block that asks for huge pages may have them; a small one, and one that does not
// ask, keeps ordinary pages, of which only those that are used take memory. No block is
// shared with other processes.
func TestHuge(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skip("this system has no huge pages")
	}
	for _, c := range []struct {
		name      string
		bytes     int64
		ask, huge bool
	}{
		{"large", 8 << 20, true, true},
		{"small", 1 << 20, true, false},
		{"not asked", 8 << 20, false, false},
	} {
		b, err := NewBlock(c.bytes, c.name)
		if err != nil {
			t.Fatal(err)
		}
		if c.ask && b.Huge() != b {
			t.Errorf("%s: another block", c.name)
		}
		list := flags(t, uintptr(b.Base))
		if got := slices.Contains(list, "hg"); got != c.huge {
			t.Errorf("%s: huge pages %v, expected %v (flags %v)", c.name, got, c.huge, list)
		}
		if slices.Contains(list, "sh") {
			t.Errorf("%s: the mapping is shared (flags %v)", c.name, list)
		}
		if err := b.Free(); err != nil {
			t.Fatal(err)
		}
	}
}
