package gpu

import (
	"slices"

	"github.com/onnxmem/onnxmem/internal/opcase"
)

// An elementwise operator without a case in the files before this one has the one that its
// signature gives.
func init() {
	list, err := opcase.Elementwise(333)
	if err != nil {
		panic(err)
	}
	for _, c := range list {
		if Lookup(c.Domain, c.Op) != nil && !slices.ContainsFunc(cases, func(k nodeCase) bool { return k.op == c.Name() }) {
			cases = append(cases, nodeCase{op: c.Name(), version: c.Version, attrs: c.Attrs, in: c.In})
		}
	}
}
