package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// TestRefusedPlan: a plan that is not valid ends the command with status 1, and the message
// has what a report needs.
func TestRefusedPlan(t *testing.T) {
	err := fmt.Errorf("m.onnx: %w", &passes.RefusedError{
		Violations: []verify.Violation{{Code: "overlap", Message: `buffer "x" and buffer "y" overlap`}}, More: 2,
		Without: []passes.Without{{Feature: "slices", Why: "limit of 1 KiB: impossible"}},
	})
	var out bytes.Buffer
	if status := conclude(&out, "optimize", err); status != exitFailed {
		t.Errorf("exit status %d, expected %d", status, exitFailed)
	}
	for _, want := range []string{
		`onnxmem: m.onnx: no valid plan was found: overlap: buffer "x" and buffer "y" overlap (and 2 more); without slices: limit of 1 KiB: impossible`,
		"onnxmem: nothing is written; this is a fault of onnxmem: please report it", issues,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %s, expected %q", &out, want)
		}
	}
	if strings.Count(out.String(), "\n") != 2 {
		t.Errorf("got %q, expected two lines", out.String())
	}
	if errors.As(err, new(*passes.LimitError)) {
		t.Error("the error is one of the limit: --json would say that the model has no plan below it")
	}
}

// TestCommandText: a command line in a report is one for a shell.
func TestCommandText(t *testing.T) {
	got := commandText([]string{"optimize", "my model.onnx", "out.onnx", "--dim", "batch=1..8", "it's", ""})
	if want := `onnxmem optimize 'my model.onnx' out.onnx --dim batch=1..8 'it'\''s' ''`; got != want {
		t.Errorf("got %s, expected %s", got, want)
	}
}
