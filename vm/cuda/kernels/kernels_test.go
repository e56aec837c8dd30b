package kernels

import (
	"maps"
	"slices"
	"testing"
)

// TestHeaders: a program depends on the headers that it includes, those that they include,
// and no others.
func TestHeaders(t *testing.T) {
	for _, c := range []struct {
		program string
		want    []string
	}{
		{"KERNEL(f, ()) {}", nil},
		{Text("poison.cu"), []string{"prelude.cuh"}},
		{Text("qconv.cu"), []string{"conv.cuh", "index.cuh", "prelude.cuh", "product.cuh", "qproduct.cuh", "tensor.cuh"}},
		{"#include \"elementwise.cuh\"\n", []string{"activation.cuh", "arithmetic.cuh", "convert.cuh", "elementwise.cuh", "prelude.cuh", "random.cuh"}},
	} {
		headers := Headers(c.program)
		if got := slices.Sorted(maps.Keys(headers)); !slices.Equal(got, c.want) {
			t.Errorf("%.40q includes %v, want %v", c.program, got, c.want)
		}
		for name, text := range headers {
			if text != Text(name) {
				t.Errorf("%s has another text", name)
			}
		}
	}
}

// TestEveryHeaderIsIncluded: each header is one of some kernel's, or of generated ones.
func TestEveryHeaderIsIncluded(t *testing.T) {
	included := Headers("#include \"elementwise.cuh\"\n")
	list, err := files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		if name := f.Name(); name[len(name)-3:] == ".cu" {
			maps.Copy(included, Headers(Text(name)))
		}
	}
	for _, f := range list {
		if name := f.Name(); name[len(name)-4:] == ".cuh" && included[name] == "" {
			t.Errorf("nothing includes %s", name)
		}
	}
}
