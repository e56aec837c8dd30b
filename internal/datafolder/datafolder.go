// Package datafolder finds test data that is too large for the repository: model
// zoos, traced training steps, ONNX's operator tests. Only the environment variable
// ONNXMEM_DATA names its folder; the Makefile sets it for make test.
package datafolder

import (
	"os"
	"path/filepath"
	"testing"
)

// Variable is the environment variable that names the folder.
const Variable = "ONNXMEM_DATA"

// Lookup returns the path of a file or folder in the test data, given by the elements
// of its path. It returns an empty string if ONNXMEM_DATA is not set or there is no
// such file.
func Lookup(elem ...string) string {
	root := os.Getenv(Variable)
	if root == "" {
		return ""
	}
	path := filepath.Join(append([]string{root}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// Path is Lookup for tests that need the data: if the file is missing, it skips tb and
// says what to set.
func Path(tb testing.TB, elem ...string) string {
	tb.Helper()
	path := Lookup(elem...)
	switch name := filepath.Join(elem...); {
	case path != "":
	case os.Getenv(Variable) == "":
		tb.Skipf("no test data: set %s to its folder", Variable)
	default:
		tb.Skipf("no test data: the folder of %s does not contain %s", Variable, name)
	}
	return path
}

// Glob returns the files of the test data that match a pattern, sorted by name. The
// last element is the pattern, the others are its folder. Glob skips tb if there are
// none.
func Glob(tb testing.TB, elem ...string) []string {
	tb.Helper()
	dir, pattern := elem[:len(elem)-1], elem[len(elem)-1]
	files, err := filepath.Glob(filepath.Join(Path(tb, dir...), pattern))
	if err != nil {
		tb.Fatal(err)
	}
	if len(files) == 0 {
		tb.Skipf("no test data: the folder of %s does not contain %s", Variable, filepath.Join(elem...))
	}
	return files
}
