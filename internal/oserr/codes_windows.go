package oserr

import "golang.org/x/sys/windows"

// The errors of a full disk, and of one that is read-only.
var (
	full     = []error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL}
	readOnly = []error{windows.ERROR_WRITE_PROTECT}
)
