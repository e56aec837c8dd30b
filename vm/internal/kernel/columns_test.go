package kernel

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/form"
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

// TestKindsOfActivations: the constants of finish.cu are those of the table, and each name is
// that of an operator of package ops.
func TestKindsOfActivations(t *testing.T) {
	text, err := os.ReadFile("../../cuda/kernels/finish.cu")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`enum \{ (.*) \};`).FindSubmatch(text)
	if list == nil {
		t.Fatal("finish.cu has no list of activations")
	}
	names := strings.Split(strings.ReplaceAll(string(list[1]), " = 1", ""), ", ")
	for i, n := range form.Activations {
		kind := n.Kind()
		switch clamps := finishes[n.Name](0, 1).Clamps; {
		case clamps != (kind == 0):
			t.Errorf("%s: clamps: %v, number %d", n.Name, clamps, kind)
		case kind > 0 && (kind != i+1 || kind > len(names) || names[kind-1] != n.Name):
			t.Errorf("%s has number %d, but finish.cu has %q", n.Name, kind, names)
		}
		if op := ops.Lookup("", n.Name); op == nil || op.Class != ops.Elementwise {
			t.Errorf("%s is no elementwise operator of package ops", n.Name)
		}
	}
	if len(finishes) != len(form.Activations) {
		t.Errorf("%d activations have a finish, expected %d", len(finishes), len(form.Activations))
	}
	if len(names) != len(form.Activations)-2 {
		t.Errorf("finish.cu has %d activations, and the table %d that do not clamp", len(names), len(form.Activations)-2)
	}
}
