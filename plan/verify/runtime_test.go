package verify_test

import (
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// TestRuntime: a plan of all sharing breaks the rules of a runtime that shares less; the
// violation says which tensor.
func TestRuntime(t *testing.T) {
	for _, c := range []struct {
		name, main, runtime, code string
		valid                     bool // with all sharing of the other runtime
	}{
		{"a registered result in place", "in x float32[8,8]\na = Transpose(x)\nb = Relu(a)\ny = Transpose(b)\nout y", ops.ONNXRuntime, "", true},
		{"a graph input is written over", "in x float32[8,8]\nb = Relu(x)\ny = Transpose(b)\nout y", ops.ONNXRuntime, verify.CodeInplace, false},
		{"a graph output is made in place", "in x float32[8,8]\na = Transpose(x)\ny = Relu(a)\nout y", ops.ONNXRuntime, verify.CodeInplace, false},
		{"a graph output is a view", "in x float32[8,8]\na = Transpose(x)\ny = Flatten(a)\nout y", ops.ONNXRuntime, verify.CodeInplace, false},
		{"an operator without a row", "in x float32[8,8]\na = Transpose(x)\nb = Hardmax(a)\ny = Transpose(b)\nout y", ops.ONNXRuntimeArena, verify.CodeInplace, false},
		{"a row that needs an allocator", "in x float32[8,8]\na = Transpose(x)\nb = Abs(a)\ny = Transpose(b)\nout y", ops.ONNXRuntime, verify.CodeInplace, false},
		{"a row that needs an allocator, with one", "in x float32[8,8]\na = Transpose(x)\nb = Abs(a)\ny = Transpose(b)\nout y", ops.ONNXRuntimeArena, "", true},
		{"a runtime that nobody knows", "in x float32[8,8]\ny = Transpose(x)\nout y", "tensorrt", verify.CodeFormat, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, file, p := planReal(t, text{main: c.main}, passes.Options{})
			p.Sharing = plan.Sharing{Views: true, Inplace: true, Runtime: c.runtime}
			r, err := verify.Plan(parse(t, file), p, verify.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if found := slices.ContainsFunc(r.Violations, func(v verify.Violation) bool { return v.Code == c.code }); r.Valid != c.valid || !c.valid && !found {
				t.Errorf("expected valid %t, code %q, found %v", c.valid, c.code, r)
			}
		})
	}
}
