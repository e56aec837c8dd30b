// Package quiet keeps gorgonia silent while it is initialized: its CUDA build logs a line
// that says so. Go initializes packages that are ready in the order of their paths, and
// this one, which imports only the standard library, comes before gorgonia.org.
package quiet

import (
	"io"
	"log"
)

var before = log.Writer()

func init() { log.SetOutput(io.Discard) }

// End lets the standard logger write again, where it wrote before. It must be called by
// the initialization of a package that imports gorgonia.
func End() {
	if log.Writer() == io.Discard {
		log.SetOutput(before)
	}
}
