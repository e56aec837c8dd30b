// Package datafolder finds the test data that are too large for the repository:
// model zoos, traced training steps, ONNX's operator tests. The environment variable
// ONNXMEM_DATA alone names their folder; the Makefile sets it for make test.
package datafolder

import (
	"os"
	"path/filepath"
	"testing"
)

// Variable is the environment variable that names the folder.
const Variable = "ONNXMEM_DATA"

// Lookup joins the elements to the folder of the test data. It returns an empty string
// if ONNXMEM_DATA is not set or nothing has that name.
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

// Path is Lookup for tests that are nothing without the data: it skips tb and says
// what to set.
func Path(tb testing.TB, elem ...string) string {
	tb.Helper()
	path := Lookup(elem...)
	switch name := filepath.Join(elem...); {
	case path != "":
	case os.Getenv(Variable) == "":
		tb.Skipf("no test data: set %s to their folder", Variable)
	default:
		tb.Skipf("no test data: %s does not have %s", Variable, name)
	}
	return path
}

// Glob returns the files below the folder that match the pattern, in the order of
// their names. It skips tb if there are none.
func Glob(tb testing.TB, elem ...string) []string {
	tb.Helper()
	dir, pattern := elem[:len(elem)-1], elem[len(elem)-1]
	files, err := filepath.Glob(filepath.Join(Path(tb, dir...), pattern))
	if err != nil {
		tb.Fatal(err)
	}
	if len(files) == 0 {
		tb.Skipf("no test data: %s does not have %s", Variable, filepath.Join(elem...))
	}
	return files
}
