package vm_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// TestNodeTestsAgainstReference compares every node that ONNX's operator tests run,
// including those of inlined functions, with the plain evaluator.
func TestNodeTestsAgainstReference(t *testing.T) {
	compared, worst := 0, 0.0
	uncompared := map[string]int{}
	for _, k := range readNodeTests(t) {
		r, err := k.reference()
		switch {
		case errors.Is(err, errUnclaimed):
			continue
		case err != nil:
			t.Errorf("%s: %v", k.name, err)
			continue
		case r.First != nil:
			t.Errorf("%s (ONNX Runtime: %s): %d nodes are off, first %v", k.name, k.runtime, r.Wrong, r.First)
		}
		compared += r.Compared
		worst = max(worst, r.Worst)
		for op, n := range r.Uncompared {
			uncompared[op] += n
			why := r.Reasons[op]
			// The evaluator holds numbers: no strings, sequences, optionals or maps.
			// Other numbers are drawn at random in every run.
			if held := !strings.Contains(why, "type string: not held") && !strings.Contains(why, "no tensors"); held && op != "Dropout" && !strings.Contains(why, "draws at random") {
				t.Errorf("%s: %s is not compared: %s", k.name, op, why)
			}
		}
	}
	t.Logf("%d nodes compared, the farthest off by %.3f of its tolerance; not compared: %v", compared, worst, uncompared)
	if compared < 10000 {
		t.Errorf("%d nodes compared, expected at least 10000", compared)
	}
}

// reference compares the test's nodes with the evaluator.
func (k *nodeTest) reference() (r *vm.ReferenceCheck, err error) {
	err = k.against(func(p *vm.Program, inputs map[string]vm.Value) error {
		r, err = p.CheckReference(context.Background(), []map[string]vm.Value{inputs}, vm.Options{Workers: 1})
		return err
	})
	return r, err
}

// against plans the test's model and passes it and its inputs to a check.
func (k *nodeTest) against(check func(*vm.Program, map[string]vm.Value) error) error {
	p, err := k.program(passes.FoldOff)
	if err != nil {
		return err
	}
	defer p.Close()
	s, err := p.NewSession(vm.Options{Workers: 1})
	if err != nil {
		return fmt.Errorf("%w: %w", errUnclaimed, err)
	}
	s.Close()
	inputs, err := k.inputs(p)
	if err != nil {
		return err
	}
	err = check(p, inputs)
	if errors.Is(err, vm.ErrUnsupported) { // a node that is prepared at run time
		return fmt.Errorf("%w: %w", errUnclaimed, err)
	}
	return err
}

// TestNodeTestsPoisoned: no kernel that ONNX's operator tests run depends on the initial
// content of its scratch, on bytes around its inputs, or on the places of its tensors.
func TestNodeTestsPoisoned(t *testing.T) {
	for _, k := range readNodeTests(t) {
		err := k.against(func(p *vm.Program, inputs map[string]vm.Value) error {
			c, err := p.CheckRun(context.Background(), []map[string]vm.Value{inputs}, vm.Options{Workers: 2, Poison: true})
			if err == nil && !c.Identical() {
				err = fmt.Errorf("other bits: %w", c.First)
			}
			return err
		})
		if err != nil && !errors.Is(err, errUnclaimed) {
			t.Errorf("%s: %v", k.name, err)
		}
	}
}
