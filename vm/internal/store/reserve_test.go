package store

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWriteZeros: if a file system cannot reserve blocks, zeros are written.
func TestWriteZeros(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "host"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 1<<20 + 5
	if err := writeZeros(f, size); err != nil {
		t.Fatal(err)
	}
	if info, err := f.Stat(); err != nil || info.Size() != size {
		t.Errorf("%v, %v", info.Size(), err)
	}
	if err := writeZeros(f, 3); err != nil {
		t.Fatal(err)
	}
}
