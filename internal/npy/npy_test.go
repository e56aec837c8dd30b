package npy

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
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
	got, err := ReadZip(bytes.NewReader(b.Bytes()), int64(b.Len()), 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(arrays, got); d != "" {
		t.Error(d)
	}
	heads, err := ReadHeads(bytes.NewReader(b.Bytes()), int64(b.Len()), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range arrays {
		a.Data = nil
	}
	if d := cmp.Diff(arrays, heads); d != "" {
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

// TestArchives: what numpy would not read, or read differently, is refused.
func TestArchives(t *testing.T) {
	var one bytes.Buffer
	if err := Write(&one, &Array{Descr: "<f4", Shape: []int{2}, Data: []byte("eight by")}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		doc, want string
		names     []string
		change    func(b []byte) []byte
	}{
		{doc: "two arrays", names: []string{"x.npy", "y.npy"}},
		{doc: "the same twice", names: []string{"x.npy", "x.npy"}, want: `has two arrays "x"`},
		{doc: "with and without an ending", names: []string{"x", "x.npy"}, want: `has two arrays "x"`},
		{doc: "another element", names: []string{"x.npy"}, want: "x.npy: zip: checksum error", change: func(b []byte) []byte {
			b[bytes.Index(b, []byte("eight"))] = 'E'
			return b
		}},
		{doc: "elements that the shape does not have", names: []string{"x.npy"}, want: "x.npy: shape [2] of <f4: expected 136 bytes with the header, found 140"},
		{doc: "elements that follow in secret", names: []string{"x.npy"}, want: "x.npy: zip: not a valid zip file", change: func(b []byte) []byte {
			b[bytes.Index(b, []byte("PK\x01\x02"))+24] = 136 // the size in the table of contents
			return b
		}},
	} {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for _, name := range c.names {
			f, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
			if err != nil {
				t.Fatal(err)
			}
			f.Write(one.Bytes())
			if strings.Contains(c.doc, "elements that") {
				f.Write([]byte("more"))
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		data := b.Bytes()
		if c.change != nil {
			data = c.change(data)
		}
		arrays, err := ReadZip(bytes.NewReader(data), int64(len(data)), 1<<20, nil)
		switch {
		case c.want == "" && (err != nil || len(arrays) != len(c.names)):
			t.Errorf("%s: got %d arrays, %v", c.doc, len(arrays), err)
		case c.want != "" && (err == nil || err.Error() != c.want):
			t.Errorf("%s: got %v, want %s", c.doc, err, c.want)
		}
	}
}

// A few bytes that would inflate to very many are refused before they are read.
func TestBomb(t *testing.T) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	f, err := z.Create("x.npy")
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(f, &Array{Descr: "<f4", Shape: []int{1 << 20}, Data: make([]byte, 4<<20)}); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	refuses := func(name string, a *Array) error {
		if name != "x" || len(a.Data) > 0 {
			t.Errorf("got %s with %d bytes", name, len(a.Data))
		}
		return fmt.Errorf("has shape %v, expected less", a.Shape)
	}
	read := func(accepts func(string, *Array) error) string {
		_, err := ReadZip(bytes.NewReader(b.Bytes()), int64(b.Len()), 1<<30, accepts)
		return fmt.Sprint(err)
	}
	if got := read(nil); got != "<nil>" {
		t.Errorf("got %s", got)
	}
	if got := read(refuses); got != "x.npy: has shape [1048576], expected less" {
		t.Errorf("got %s", got)
	}
	binary.LittleEndian.PutUint32(b.Bytes()[bytes.Index(b.Bytes(), []byte("PK\x01\x02"))+20:], 4000) // the compressed size
	if got := read(nil); !strings.HasPrefix(got, "x.npy: has 4000 bytes that would inflate to 4194") {
		t.Errorf("got %s", got)
	}
}
