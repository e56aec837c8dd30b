package vm_test

import (
	"bytes"
	"os"
	"testing"
)

// go.cuda.mod, the module file of the CUDA build, is go.mod with gorgonia.org/cu replaced
// by ../cu, and their sums are equal. That Go finds every package by them, .ci/modules says.
func TestCUDAModuleFile(t *testing.T) {
	read := func(name string) []byte {
		b, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	want := append(read("go.mod"), "\nreplace gorgonia.org/cu => ./cu\n"...)
	if !bytes.Equal(read("go.cuda.mod"), want) {
		t.Error("go.cuda.mod is not go.mod with one line more: write it again with `make cuda-mod`")
	}
	if !bytes.Equal(read("go.cuda.sum"), read("go.sum")) {
		t.Error("go.cuda.sum is not go.sum: write it again with `make cuda-mod`")
	}
}
