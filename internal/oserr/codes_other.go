//go:build !windows

package oserr

import "syscall"

// The errors of a full disk, and of one that is read-only.
var (
	full     = []error{syscall.ENOSPC}
	readOnly = []error{syscall.EROFS}
)
