package memory

import "golang.org/x/sys/unix"

// free is the share of memory that macOS says could be given out without swapping
// (what memory_pressure prints), of all.
func free() (int64, bool) {
	total, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0, false
	}
	percent, err := unix.SysctlUint32("kern.memorystatus_level")
	if err != nil || percent > 100 {
		return 0, false
	}
	return int64(total / 100 * uint64(percent)), true
}
