package memory

import "golang.org/x/sys/unix"

// free returns the memory that macOS can give out without swapping. The kernel
// reports it as a percentage of all memory, as memory_pressure prints it.
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
