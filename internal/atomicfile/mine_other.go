//go:build !unix

package atomicfile

import "os"

// mine reports whether this user owns a file: who may write to a folder is settled
// by its access list there.
func mine(os.FileInfo) bool { return true }
