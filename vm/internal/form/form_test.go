package form

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestNoKernels: neither this package nor the kernels of a GPU stand on those of the host.
func TestNoKernels(t *testing.T) {
	for _, folder := range []string{".", "../gpu"} {
		files, err := filepath.Glob(folder + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has files %q (%v), expected some", folder, files, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") { // the host's kernels say what is right
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range f.Imports {
				path, _ := strconv.Unquote(i.Path.Value)
				for _, host := range []string{"kernel", "gemm"} {
					if strings.HasSuffix(path, "/vm/internal/"+host) {
						t.Errorf("%s imports %s", name, path)
					}
				}
			}
		}
	}
}
