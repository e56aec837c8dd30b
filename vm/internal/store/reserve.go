package store

import "os"

// reserveBytes is the part of a file that is reserved at once: a signal could
// interrupt a longer call again and again.
const reserveBytes = 64 << 20

// writeZeros reserves the blocks of a new file by writing them.
func writeZeros(f *os.File, bytes int64) error {
	zeros := make([]byte, min(bytes, 1<<20))
	for off := int64(0); off < bytes; off += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), bytes-off)], off); err != nil {
			return err
		}
	}
	return nil
}
