package kernel

import (
	"slices"

	"github.com/onnxmem/onnxmem/internal/opcase"
)

// An elementwise operator without a case in the files before this one has the one that its
// signature gives.
func init() {
	list, err := opcase.Elementwise(5, 77)
	if err != nil {
		panic(err)
	}
	for _, c := range list {
		if Lookup(c.Domain, c.Op) != nil && !slices.ContainsFunc(nodeCases, func(k nodeCase) bool { return k.op == c.Name() }) {
			nodeCases = append(nodeCases, nodeCase{op: c.Name(), version: c.Version, attrs: c.Attrs, in: c.In})
		}
	}
}
