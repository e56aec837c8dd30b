//go:build unix

package readable

import "syscall"

// nonblock lets a pipe be opened without waiting for a writer.
const nonblock = syscall.O_NONBLOCK
