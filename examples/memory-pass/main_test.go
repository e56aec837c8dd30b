package main

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
)

// TestFour: the list of four.mlir becomes that of four.planned.mlir.
func TestFour(t *testing.T) {
	want, err := os.ReadFile("four.planned.mlir")
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open("four.mlir")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var out strings.Builder
	if err := run(context.Background(), in, &out, io.Discard); err != nil || out.String() != string(want) {
		t.Errorf("%v: %s\nexpected %s", err, out.String(), want)
	}
	for text, want := range map[string]string{
		"%a = memref.alloc() : memref<?x4xf32>": "line 1: ", "memref.dealloc %b": "line 1: %b is not allocated",
	} {
		if err := run(context.Background(), strings.NewReader(text), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", text, err, want)
		}
	}
}
