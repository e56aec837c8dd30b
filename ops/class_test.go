package ops_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/ops"
)

// each calls f for every operator.
func each(f func(domain string, op *ops.Op)) {
	for _, domain := range ops.Domains() {
		for _, name := range ops.Names(domain) {
			f(domain, ops.Lookup(domain, name))
		}
	}
}

// TestEveryOperatorHasAClass: no row is without one, and the classes agree with what the
// other columns say.
func TestEveryOperatorHasAClass(t *testing.T) {
	same := func(f, g any) bool { return reflect.ValueOf(f).Pointer() == reflect.ValueOf(g).Pointer() }
	each(func(domain string, op *ops.Op) {
		if op.Class < ops.Elementwise || op.Class > ops.Other {
			t.Errorf("%s %s has no class", domain, op.Name)
		}
		if op.Cut != nil && slices.ContainsFunc(ops.ElementwiseCuts, func(f any) bool { return same(op.Cut, f) }) != (op.Class == ops.Elementwise) {
			t.Errorf("%s %s is of class %v: expected elementwise if and only if its rows are those of its operands", domain, op.Name, op.Class)
		}
		if random := op.Random && domain == "" || op.Seeded; random != (op.Class == ops.Draw) {
			t.Errorf("%s %s is of class %v, and draws random numbers: %v", domain, op.Name, op.Class, random)
		}
	})
}
