//go:build !linux && !darwin && !windows

package store

import "os"

// reserve allocates all blocks of a new file of the given size: without them, an
// access to the mapped file faults when the disk is full.
func reserve(f *os.File, bytes int64) error { return writeZeros(f, bytes) }
