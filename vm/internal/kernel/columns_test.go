package kernel

import (
	"testing"

	"github.com/onnxmem/onnxmem/ops"
)

// TestColumnsOfActivations: package ops says of an operator that it is an activation which the
// kernel before it may apply, or that its kernel may apply one, exactly if its kernel can. The
// costs by which a plan is chosen follow from what ops says.
func TestColumnsOfActivations(t *testing.T) {
	for id, k := range table {
		op := ops.Lookup(id.domain, id.name)
		if op == nil {
			t.Errorf("%s %s has a kernel, but no row in ops", id.domain, id.name)
			continue
		}
		if op.Activation != (k.Finish != nil) {
			t.Errorf("%s %s: ops says Activation: %v, and the kernel has a Finish: %v", id.domain, id.name, op.Activation, k.Finish != nil)
		}
		if op.Applies != k.Fuses {
			t.Errorf("%s %s: ops says Applies: %v, and the kernel Fuses: %v", id.domain, id.name, op.Applies, k.Fuses)
		}
	}
	for _, domain := range ops.Domains() {
		for _, name := range ops.Names(domain) {
			if op := ops.Lookup(domain, name); (op.Activation || op.Applies) && Lookup(domain, name) == nil {
				t.Errorf("%s %s: ops says that its kernel fuses, but there is none", domain, name)
			}
		}
	}
}
