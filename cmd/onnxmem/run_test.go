package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onnxmem/onnxmem/vm"
)

// If a check finds a difference, the run ends with status 1 and names the node.
func TestRunFailsWhereACheckDiffers(t *testing.T) {
	node := errors.New(`planned.onnx: node "pool" (GlobalAveragePool): tensor "y": element 3 is 2, expected 1`)
	for _, c := range []struct {
		name      string
		bits      *vm.Check
		reference *vm.ReferenceCheck
		want      string // "": no failure
	}{
		{"no check", nil, nil, ""},
		{"same bits", &vm.Check{Outputs: []vm.Difference{{Identical: true}}}, nil, ""},
		{"other bits", &vm.Check{Outputs: []vm.Difference{{}}, First: node}, nil, "differs from an unplanned run: " + node.Error()},
		{"other bits, no node named", &vm.Check{Outputs: []vm.Difference{{}}}, nil, "differs from an unplanned run"},
		{"all nodes right", nil, &vm.ReferenceCheck{Compared: 84}, ""},
		{"one node wrong", nil, &vm.ReferenceCheck{Compared: 84, Wrong: 1, First: node}, "differs from the reference: " + node.Error()},
		{"three nodes wrong", nil, &vm.ReferenceCheck{Compared: 84, Wrong: 3, First: node}, "differs from the reference: " + node.Error() + othersText(2)},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := verdict(c.bits, c.reference)
			if c.want == "" {
				if err != nil {
					t.Errorf("%v, expected none", err)
				}
				return
			}
			var f *failure
			if !errors.As(err, &f) || f.status != exitFailed || f.text != c.want {
				t.Errorf("%#v, expected status %d with %q", err, exitFailed, c.want)
			}
		})
	}
}

// The summary of --check=reference counts the wrong nodes, in text and in JSON.
func TestRunSummarizesTheReference(t *testing.T) {
	r := summarize(&vm.ReferenceCheck{Compared: 84, Wrong: 1, First: errors.New("node 3")}, time.Second)
	var text bytes.Buffer
	r.print(&text)
	if !strings.Contains(text.String(), "reference            84 nodes: 1 wrong") {
		t.Errorf("%s", text.String())
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"wrong_nodes": 1`, `"first_wrong": "node 3"`, `"seconds": 1`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s, expected %s", b, want)
		}
	}
}

// An array without elements may have longer axes than its input has elements.
func TestRunTakesArraysWithoutElements(t *testing.T) {
	bad, err := filepath.Abs("../../testdata/bad/zero-size.onnx")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	header := "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4), }"
	header += strings.Repeat(" ", 117-len(header)) + "\n"
	if err := os.WriteFile("x.npy", []byte("\x93NUMPY\x01\x00"+string(rune(len(header)))+"\x00"+header), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"optimize " + bad + " planned.onnx", "run planned.onnx --input x=x.npy --check"} {
		if status, errs := onCommandLine(line); status != 0 {
			t.Fatalf("onnxmem %s: exit status %d: %s", line, status, errs)
		}
	}
}
