package npy

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRoundTrip(t *testing.T) {
	arrays := map[string]*Array{
		"scalar":  {Descr: "<f4", Shape: []int{}, Data: []byte{1, 2, 3, 4}},
		"line":    {Descr: "|b1", Shape: []int{3}, Data: []byte{1, 0, 1}},
		"a/plane": {Descr: "<i8", Shape: []int{1, 2}, Data: make([]byte, 16)},
	}
	var b bytes.Buffer
	w := NewZipWriter(&b)
	for _, name := range []string{"scalar", "line", "a/plane"} {
		if err := w.Write(name, arrays[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := ReadZip(bytes.NewReader(b.Bytes()), int64(b.Len()), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(arrays, got); d != "" {
		t.Error(d)
	}
}

func TestRefusals(t *testing.T) {
	file := func(header string, data int) string {
		return "\x93NUMPY\x01\x00" + string([]byte{byte(len(header)), 0}) + header + strings.Repeat("x", data)
	}
	for _, c := range []struct{ name, text, want string }{
		{"something else", "PK\x03\x04", "not a numpy array"},
		{"big-endian", file("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", 4), "little-endian"},
		{"Fortran order", file("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", 16), "Fortran"},
		{"cut short", file("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", 15), "15 bytes"},
		{"beyond the limit", file("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999, 99999999), }", 0), "more than"},
		{"objects", file("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", 8), "element type"},
	} {
		if _, err := Read(strings.NewReader(c.text), 1<<20); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestStrings(t *testing.T) {
	list := []string{"", "zwölf", "a"}
	a, err := OfStrings(list, []int{3}, 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Write(&b, a); err != nil {
		t.Fatal(err)
	}
	back, err := Read(&b, 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := back.Strings(); !ok || !slices.Equal(got, list) || back.Descr != "<U5" {
		t.Errorf("got %q of %s, want %q", got, back.Descr, list)
	}
	octets := &Array{Descr: "|S3", Shape: []int{2}, Data: []byte("ab\x00xyz")}
	if got, ok := octets.Strings(); !ok || !slices.Equal(got, []string{"ab", "xyz"}) {
		t.Errorf("got %q of S3", got)
	}
	if _, err := OfStrings(list, []int{3}, 59); err == nil {
		t.Error("60 bytes within a limit of 59: got no error")
	}
}
