//go:build unix

package store

import "github.com/edsrzf/mmap-go"

// anonymous is how memory without a file is mapped. No other process sees it: Linux takes
// pages of shared memory one by one, through its file system for them.
const anonymous = mmap.COPY
