//go:build unix

package readable

import "syscall"

// nonblock keeps the opening of a pipe from waiting for who writes to it.
const nonblock = syscall.O_NONBLOCK
