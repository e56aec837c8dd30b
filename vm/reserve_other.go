//go:build !linux && !darwin && !windows

package vm

import "os"

// reserve takes all blocks that a new file of that many bytes needs: a mapped file
// without them faults when its disk is full.
func reserve(f *os.File, bytes int64) error { return writeZeros(f, bytes) }
