package vm

import "os"

// reserveBytes is how much of a file is reserved, or written, at once: a signal may
// cut off a longer call.
const reserveBytes = 64 << 20

// writeZeros fills a new file where its blocks cannot be had otherwise.
func writeZeros(f *os.File, bytes int64) error {
	zeros := make([]byte, min(bytes, 1<<20))
	for off := int64(0); off < bytes; off += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), bytes-off)], off); err != nil {
			return err
		}
	}
	return nil
}
