package alloc

import (
	"bytes"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// TestReadJSON: each form that is accepted, and each error.
func TestReadJSON(t *testing.T) {
	for _, c := range []struct {
		name, json string
		want       Problem
		err        string
	}{
		{"a list alone", `[{"id":"a","lower":0,"upper":2,"size":4}]`, Problem{Buffers: []Buffer{{ID: "a", Size: 4, Last: 1}}}, ""},
		{
			"all fields, a number as ID, other fields around", `{"name":"x","buffers":[{"id":7,"lower":5,"upper":9,"size":18,"alignment":2,"hint":-1,"offset":4,"gaps":[{"lower":6,"upper":8,"from":1,"to":17}]}],"alignment":64,"more":[1]}`,
			Problem{Alignment: 64, Buffers: []Buffer{{ID: "7", First: 5, Last: 8, Size: 18, Align: 2, Fixed: at(4), Gaps: []Gap{{6, 7, 1, 17}}}}},
			"",
		},
		{"nothing", ``, Problem{}, "byte 0: EOF"},
		{"no buffers", `{"nodes":[]}`, Problem{}, `buffers: missing: expected {"buffers": [{"id", "lower", "upper", "size"}]}`},
		{"no list", `{"buffers":{}}`, Problem{}, `buffers: expected a list, found {`},
		{"cut short", `{"buffers":[{"id":"a","lower":0`, Problem{}, "byte 12: buffers[0]: unexpected EOF"},
		{"no size", `[{"id":"a","lower":0,"upper":2}]`, Problem{}, "buffers[0]: expected lower, upper and size"},
		{"an unknown key", `[{"id":"a","lower":0,"upper":2,"size":4,"aligment":8}]`, Problem{}, `buffers[0]: byte 40: unknown field "aligment"`},
		{"a key twice", `[{"id":"a","lower":0,"upper":2,"size":4,"size":8}]`, Problem{}, `buffers[0]: byte 40: key "size" occurs twice`},
		{"a key twice in a gap", `[{"lower":2,"upper":5,"size":4},{"lower":2,"upper":5,"size":4,"gaps":[{"lower":3,"upper":4,"lower":2}]}]`, Problem{}, `buffers[1]: byte 91: gaps[0]: key "lower" occurs twice`},
		{"another case", `[{"id":"a","Lower":0,"upper":2,"size":4}]`, Problem{}, `buffers[0]: byte 11: expected the key "lower", found "Lower"`},
		{"the alignment twice", `{"alignment":64,"buffers":[],"alignment":8}`, Problem{}, `byte 40: key "alignment" occurs twice`},
		{"the list twice", `{"buffers":[],"buffers":[]}`, Problem{}, `byte 23: key "buffers" occurs twice`},
		{"the list in another case", `{"Buffers":[]}`, Problem{}, `byte 10: expected the key "buffers", found "Buffers"`},
		{"a key twice in what is skipped", `{"more":{"a":1,"a":2},"buffers":[]}`, Problem{}, `byte 15: key "a" occurs twice`},
		{"half a surrogate pair", `[{"id":"\ud800","lower":0,"upper":2,"size":4}]`, Problem{}, `buffers[0]: byte 8: id: expected both halves of a surrogate pair, found "\\ud800" alone`},
		{"an empty lifetime", `[{"lower":2,"upper":2,"size":4}]`, Problem{}, "buffers[0]: expected a lifetime of at least one step from 2 on, found 2"},
		{"a negative size", `[{"lower":2,"upper":3,"size":-4}]`, Problem{}, "buffer 0: size: expected 0 or more bytes, found -4"},
		{"a list as ID", `[{"id":[],"lower":2,"upper":3,"size":4}]`, Problem{}, "buffers[0]: id: expected a string or a number, found []"},
		{"an empty gap", `[{"lower":2,"upper":5,"size":4,"gaps":[{"lower":3,"upper":3}]}]`, Problem{}, "buffers[0]: gap 0: expected at least one step from 3 on, found 3"},
		{"more after the end", `[] []`, Problem{}, "byte 4: expected the end of the file"},
	} {
		p, err := ReadJSON(strings.NewReader(c.json))
		if message(err) != c.err {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.err)
		}
		if d := gocmp.Diff(c.want, p, gocmp.AllowUnexported(Problem{})); err == nil && d != "" {
			t.Errorf("%s: want - got +:\n%s", c.name, d)
		}
	}
}

// TestWriteJSON: one buffer per line, with the offsets of the placement.
func TestWriteJSON(t *testing.T) {
	p := parse(t, picture)
	a := GreedyBySize(p)
	var got bytes.Buffer
	if err := p.WriteJSON(&got, &a); err != nil {
		t.Fatal(err)
	}
	want := `{
 "arena_bytes": 7,
 "buffers": [
  {"id":"a","lower":0,"upper":2,"size":4,"offset":0},
  {"id":"b","lower":0,"upper":2,"size":2,"offset":4},
  {"id":"c","lower":1,"upper":3,"size":1,"offset":6},
  {"id":"d","lower":2,"upper":4,"size":4,"offset":0}
 ]
}
`
	if d := gocmp.Diff(want, got.String()); d != "" {
		t.Errorf("want - got +:\n%s", d)
	}
}

// FuzzReadJSON: buffers that are read, written and read again are the same.
func FuzzReadJSON(f *testing.F) {
	f.Add(`{"alignment":8,"buffers":[{"id":"a","lower":0,"upper":2,"size":4}]}`)
	f.Add(`[{"id":7,"lower":5,"upper":9,"size":18,"alignment":2,"hint":3,"offset":4,"gaps":[{"lower":6,"upper":8,"from":1,"to":17}]}]`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ReadJSON(strings.NewReader(text))
		if err != nil {
			return
		}
		var out, twice bytes.Buffer
		if err := p.WriteJSON(&out, nil); err != nil {
			t.Fatal(err)
		}
		again, err := ReadJSON(bytes.NewReader(out.Bytes()))
		if err == nil {
			err = again.WriteJSON(&twice, nil)
		}
		if err != nil || twice.String() != out.String() {
			t.Fatalf("%q: written as %q, then as %q: %v", text, out.String(), twice.String(), err)
		}
	})
}
