package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
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

// TestDecoderMoves: masks show the new tokens of each step, from what is given or from none
// on, and positions move on by them.
func TestDecoderMoves(t *testing.T) {
	inputs := map[string]vm.Value{
		"ids": vm.Int64s(make([]int64, 4), 2, 2), "mask": vm.Int64s([]int64{9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9}, 2, 6),
		"seen": vm.Int64s([]int64{1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0}, 2, 7), "at": vm.Int64s(make([]int64, 4), 2, 2), "from": vm.Int64s([]int64{5, 6, 1, 2}, 2, 2),
	}
	d := &decoder{to: "ids"}
	c := &runCmd{Steps: 2, Mask: []string{"mask", "seen"}, Positions: []string{"at", "from"}}
	if err := d.begin(c, inputs, map[string]bool{"seen": true, "from": true}); err != nil {
		t.Fatal(err)
	}
	want := []map[string][]int64{
		{"mask": {1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0}, "seen": {1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0}, "at": {0, 1, 0, 1}, "from": {5, 6, 1, 2}},
		{"mask": {1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0}, "seen": {1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 0}, "at": {2, 3, 2, 3}, "from": {7, 8, 3, 4}},
	}
	for i, want := range want {
		next, err := d.next(i, inputs, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, list := range want {
			if got, _ := wholes(next[name]); !slices.Equal(got, list) {
				t.Errorf("step %d: %s is %v, want %v", i, name, got, list)
			}
		}
	}
	for _, c := range []*runCmd{{Steps: 3, Mask: []string{"seen"}}, {Steps: 1, Mask: []string{"none"}}, {Steps: 1, Positions: []string{"none"}}} {
		if err := (&decoder{to: "ids"}).begin(c, inputs, map[string]bool{"seen": true}); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}
