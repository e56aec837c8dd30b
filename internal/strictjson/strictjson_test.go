package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/onnxmem/onnxmem/internal/strictjson"
)

type inner struct {
	Bytes int64    `json:"bytes"`
	Names []string `json:"names"`
	Node  *int     `json:"node,omitempty"`
}

// Extra is embedded, as the figures of a limit are in a plan's summary.
type Extra struct {
	Most  int64    `json:"most"`
	Bound *float64 `json:"bound"`
	Link  int64    `json:"link,omitempty"`
}

// ID has an UnmarshalJSON method.
type ID string

func (id *ID) UnmarshalJSON(b []byte) error { *id = ID(b); return nil }

// untagged has an UnmarshalJSON method and no tags.
type untagged struct{ Model string }

func (u *untagged) UnmarshalJSON([]byte) error { return nil }

// tagged has an UnmarshalJSON method and tags.
type tagged struct {
	Model string `json:"model"`
}

func (u *tagged) UnmarshalJSON([]byte) error { return nil }

type outer struct {
	Name  string           `json:"name"`
	List  []inner          `json:"list"`
	Dims  map[string]inner `json:"dims"`
	Flag  bool             `json:"flag"`
	Rate  float64          `json:"rate,omitempty"`
	Later json.RawMessage  `json:"later,omitempty"`
	ID    ID               `json:"id,omitempty"`
	Hid   int              `json:"-"`
	*Extra
}

const whole = `{"name": "a", "list": [{"bytes": 1, "names": ["x"]}, {"bytes": 2, "names": null, "node": 3}], "dims": {"n": {"bytes": 0, "names": []}}, "flag": false}`

func TestUnmarshal(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"ours", whole, ""},
		{"spaces", " \r\n\t" + whole + "\n", ""},
		{"an empty object", `{}`, ""},
		{"unknown fields", `{"note": {"Name": 1, "name": [{}, {"a": null}]}, "Note": 2}`, ""},
		{"keys of a map that differ in case", `{"dims": {"n": {}, "N": {}}}`, ""},
		{"a text with all its escapes", `{"name": "\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00é"}`, ""},
		{"numbers as null", `{"flag": null, "list": [null, {"bytes": null}]}`, ""},
		{"a type with its own UnmarshalJSON", `{"id": {"x": [1, 2]}}`, ""},

		{"a key twice", `{"name": "a", "flag": true, "name": "b"}`, `byte 28: key "name" occurs twice`},
		{"a key twice, one spelled with an escape", `{"name": "a", "n\u0061me": "b"}`, `byte 14: key "name" occurs twice`},
		{"a key twice, deep", `{"list": [{}, {"bytes": 1, "bytes": 2}]}`, `byte 27: list[1]: key "bytes" occurs twice`},
		{"a key of a map twice", `{"dims": {"a b": {}, "a b": {}}}`, `byte 21: dims: key "a b" occurs twice`},
		{"an unknown key twice", `{"note": 1, "note": 2}`, `byte 12: key "note" occurs twice`},
		{"a key twice within an unknown field", `{"note": [{"deep": {"a": 1, "a": 2}}]}`, `byte 28: note[0].deep: key "a" occurs twice`},
		{"many keys, one of them twice", manyKeys(50, 17), `byte 543: key "k17" occurs twice`},
		{"a key twice within a type with its own UnmarshalJSON", `{"id": {"x": 1, "x": 2}}`, `byte 16: id: key "x" occurs twice`},
		{"a key twice within raw JSON", `{"later": {"x": 1, "x": 2}}`, `byte 19: later: key "x" occurs twice`},
		{"another case", `{"Name": "a"}`, `byte 1: expected the key "name", found "Name"`},
		{"another case beside the right one", `{"list": [{"bytes": 1, "BYTES": 2}]}`, `byte 23: list[0]: expected the key "bytes", found "BYTES"`},
		{"another case, as encoding/json folds it", `{"li\u017ft": []}`, `byte 1: expected the key "list", found "liſt"`},
		{"another case of an embedded field", `{"Most": 1}`, `byte 1: expected the key "most", found "Most"`},
		{"text after the end", whole + " {}", `byte 151: expected the end of the text, found "{}"`},
		{"a second value", `{} {}`, `byte 3: expected the end of the text, found "{}"`},
		{"not UTF-8", "{\"name\": \"a\xff\"}", "byte 11: name: expected UTF-8, found byte 0xff"},
		{"a key that is not UTF-8", "{\"\xc3\x28\": 1}", "byte 2: expected UTF-8, found byte 0xc3"},
		{"half a surrogate pair", `{"name": "a\ud800b"}`, `byte 11: name: expected both halves of a surrogate pair, found "\\ud800" alone`},
		{"the second half alone", `{"dims": {"\udc00": {}}}`, `byte 11: dims: expected both halves of a surrogate pair, found "\\udc00" alone`},
		{"two first halves", `{"name": "\ud800\ud800"}`, `byte 10: name: expected both halves of a surrogate pair, found "\\ud800" alone`},
		{"too deep", `{"note": ` + strings.Repeat("[", 1<<20), "expected at most 200 levels of lists and objects, found more"},
		{"too deep, objects", strings.Repeat(`{"note":`, 1<<20), "expected at most 200 levels of lists and objects, found more"},

		{"nothing", "", "byte 0: unexpected end of JSON input"},
		{"space", "  ", "byte 2: unexpected end of JSON input"},
		{"cut short", `{"name": "a`, "byte 11: unexpected end of JSON input"},
		{"cut short in an escape", `{"name": "a\`, `byte 11: invalid character ' ' in string escape code`},
		{"not JSON", "ONNX", "byte 0: invalid character 'O' looking for beginning of value"},
		{"a comma too many", `{"name": "a",}`, "byte 13: invalid character '}' looking for beginning of object key string"},
		{"no colon", `{"name" "a"}`, `byte 8: invalid character '"' after object key`},
		{"a control character", "{\"name\": \"a\nb\"}", `byte 11: invalid character '\n' in string literal`},
		{"a byte order mark", "\xef\xbb\xbf{}", "byte 0: invalid character 'ï' looking for beginning of value"},
		{"a malformed number", `{"rate": 01}`, "byte 10: invalid character '1' after object key:value pair"},
		{"another type", `{"flag": "yes"}`, "byte 14: flag: expected true or false, found string"},
		{"a fraction", `{"list": [{"bytes": 1.5}]}`, "byte 23: list.bytes: expected a whole number of 64 bits, found number 1.5"},
		{"too large", `{"list": [{"bytes": 9223372036854775808}]}`, "byte 39: list.bytes: expected a whole number of 64 bits, found number 9223372036854775808"},
		{"a long number", `{"rate": 1e` + strings.Repeat("9", 200) + `}`, "byte 211: rate: expected a number of 64 bits, found number 1e" + strings.Repeat("9", 51) + "…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v outer
			err := strictjson.Unmarshal([]byte(c.text), &v)
			check(t, err, c.want)
			if c.want != "" {
				return
			}
			var plain outer
			if err := json.Unmarshal([]byte(c.text), &plain); err != nil {
				t.Fatal(err)
			}
			if got, want := dump(t, v), dump(t, plain); got != want {
				t.Errorf("decoded %s, expected %s", got, want)
			}
		})
	}
}

// kinds has a field of every kind of type that is decoded in a way of its own.
type kinds struct {
	Bool     bool               `json:"bool"`
	Int      int                `json:"int"`
	Int64    int64              `json:"int64"`
	Int8     int8               `json:"int8"`
	Uint     uint               `json:"uint"`
	Float    float64            `json:"float"`
	Float32  float32            `json:"float32"`
	Text     string             `json:"text"`
	Number   json.Number        `json:"number"`
	Bytes    []byte             `json:"bytes"`
	Pair     [2]int             `json:"pair"`
	Any      any                `json:"any"`
	Pointer  **int              `json:"pointer"`
	Lists    [][]string         `json:"lists"`
	Pointers []*inner           `json:"pointers"`
	Named    map[name]*[]int    `json:"named"`
	Counted  map[int]string     `json:"counted"`
	When     time.Time          `json:"when"`
	Address  *netip.Addr        `json:"address"`
	By       map[netip.Addr]int `json:"by"`
	Tree     *tree              `json:"tree"`
	Own      *ID                `json:"own"`
	Levels
}

type name string

// Levels is embedded by value.
type Levels struct {
	Level int `json:"level"`
}

// tree is recursive, through a pointer and through a list.
type tree struct {
	Left *tree  `json:"left"`
	More []tree `json:"more"`
	Leaf int    `json:"leaf"`
}

// TestKinds: values of all kinds are decoded as encoding/json does, or refused with its
// error, into a new value and into one that has been used.
func TestKinds(t *testing.T) {
	texts := []string{
		`null`, `true`, `false`, `0`, `-0`, `7`, `-12`, `300`, `1.0`, `1.5`, `-2e3`, `2E+2`, `1e400`, `9223372036854775807`, `-9223372036854775808`, `9223372036854775808`,
		`""`, `"x"`, `"YWI="`, `"\u0061\n"`, `"1"`, `"2026-11-27T01:02:03Z"`, `"::1"`,
		`[]`, `[null]`, `[1]`, `[1, 2, 3]`, `["a", "b"]`, `[["a"], [], null]`, `[{"bytes": 1}, null, {}]`,
		`{}`, `{"a": null}`, `{"a": [1], "b": []}`, `{"1": "x"}`, `{"::1": 3}`, `{"left": {"left": null, "leaf": 2}, "more": [{"leaf": 3}, {}], "leaf": 1}`,
		`-`, `01`, `1.`, `.5`, `1e`, `+1`, `0x1`, `nul`, `tru`, `truex`, `nan`, `"\x"`, `"\u12"`, "\"\t\"", `[1,]`, `{"a"}`,
	}
	keys := []string{"level", "note"}
	for f := range reflect.TypeFor[kinds]().Fields() {
		if key := f.Tag.Get("json"); key != "" {
			keys = append(keys, key)
		}
	}
	used := `{"bool": true, "int": 1, "text": "t", "pointer": 2, "lists": [["u", "v"], ["w"]], "pointers": [{"bytes": 5}], "named": {"n": [1]}, "tree": {"leaf": 4}, "level": 3}`
	for _, key := range keys {
		for _, value := range texts {
			text := []byte(`{"` + key + `": ` + value + `}`)
			for _, before := range []string{"{}", used} {
				var got, want kinds
				if err := errors.Join(json.Unmarshal([]byte(before), &got), json.Unmarshal([]byte(before), &want)); err != nil {
					t.Fatal(err)
				}
				fault, err := strictjson.Unmarshal(text, &got), json.Unmarshal(text, &want)
				if (fault == nil) != (err == nil) {
					t.Errorf("%s: error %v, expected %v", text, fault, err)
				}
				if before == used && strings.Contains(key+value, `pointers[{"`) {
					continue // encoding/json keeps what the elements pointed to
				}
				if err == nil && !reflect.DeepEqual(got, want) {
					t.Errorf("%s, before it %s: decoded %s, expected %s", text, before, dump(t, got), dump(t, want))
				}
			}
		}
	}
}

// TestElementsAreNew: an element of a list has no fields of one that was there before.
func TestElementsAreNew(t *testing.T) {
	var v outer
	for _, text := range []string{`{"list": [{"node": 1}, {"node": 2}, {"node": 3}]}`, `{"list": [{}]}`, `{"list": [{}, {}, {}]}`} {
		check(t, strictjson.Unmarshal([]byte(text), &v), "")
	}
	for i, x := range v.List {
		if x.Node != nil {
			t.Errorf("list[%d].node is %d, expected none", i, *x.Node)
		}
	}
}

func manyKeys(n, twice int) string {
	var b strings.Builder
	b.WriteString("{")
	for i := range n {
		fmt.Fprintf(&b, `"k%02d": %d, `, i, i)
	}
	fmt.Fprintf(&b, `"k%d": 0}`, twice)
	return strings.ReplaceAll(b.String(), `, "k17"`, `,  "k17"`)
}

func dump(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func check(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && (err == nil || !strings.HasSuffix(err.Error(), want)):
		t.Errorf("error %v, expected %q", err, want)
	}
	if e := (*strictjson.Error)(nil); err != nil && (!errors.As(err, &e) || len(err.Error()) > 500) {
		t.Errorf("error %T of %d bytes, expected a short *strictjson.Error", err, len(err.Error()))
	}
}

func TestRules(t *testing.T) {
	complete, known := strictjson.Rules{Complete: true}, strictjson.Rules{Known: true}
	for _, c := range []struct {
		name  string
		rules strictjson.Rules
		text  string
		want  string
	}{
		{"complete", complete, whole, ""},
		{"complete, with unknown fields", complete, strings.Replace(whole, "{", `{"note": null, `, 1), ""},
		{"a field is missing", complete, strings.Replace(whole, `, "flag": false`, "", 1), `"flag" is missing`},
		{"a field deep inside is missing", complete, strings.Replace(whole, `"bytes": 2, `, "", 1), `byte 78: list[1]: "bytes" is missing`},
		{"a field in a map is missing", complete, strings.Replace(whole, `"bytes": 0, `, "", 1), `dims.n: "bytes" is missing`},
		{"an empty object", complete, strings.Replace(whole, `{"bytes": 1, "names": ["x"]}`, "{}", 1), `byte 24: list[0]: "bytes" is missing`},
		{"null for a number", complete, strings.Replace(whole, `"bytes": 1`, `"bytes": null`, 1), `byte 33: list[0].bytes: expected a value, found null`},
		{"null for an object", complete, strings.Replace(whole, `{"bytes": 1, "names": ["x"]}`, "null", 1), `list[0]: expected a value, found null`},
		{"null for a text", complete, strings.Replace(whole, `["x"]`, "[null]", 1), `list[0].names[0]: expected a value, found null`},
		{"null for an optional field", complete, strings.Replace(whole, `"node": 3`, `"node": null`, 1), ""},
		{"all embedded fields", complete, strings.Replace(whole, "{", `{"most": 1, "bound": null, `, 1), ""},
		{"some embedded fields", complete, strings.Replace(whole, "{", `{"most": 1, `, 1), `"bound" is missing`},
		{"an optional embedded field alone", complete, strings.Replace(whole, "{", `{"link": 1, `, 1), `"most" is missing`},
		{"known", known, whole, ""},
		{"an unknown field", known, `{"list": [{"byte": 1}]}`, `byte 11: list[0]: unknown field "byte"`},
		{"keys of a map", known, `{"dims": {"anything": {}}}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v outer
			check(t, c.rules.Unmarshal([]byte(c.text), &v), c.want)
		})
	}
}

// TestOwn: the scan knows the keys of a type with an UnmarshalJSON method if the type
// has tags.
func TestOwn(t *testing.T) {
	var u untagged
	check(t, strictjson.Unmarshal([]byte(`{"model": "a", "Model": "b"}`), &u), "")
	check(t, strictjson.Unmarshal([]byte(`{"model": "a", "model": "b"}`), &u), `byte 15: key "model" occurs twice`)
	var g tagged
	check(t, strictjson.Unmarshal([]byte(`{"Model": "a"}`), &g), `byte 1: expected the key "model", found "Model"`)
}

// TestBounded: a hostile text takes memory and stack in proportion to its bytes.
func TestBounded(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"levels", strings.Repeat("[", 1<<20)},
		{"keys", manyKeys(1<<16, 17)},
		{"objects", `{"note": [` + strings.Repeat(`{},`, 1<<18) + `{}]}`},
		{"objects with keys", `{"note": [` + strings.Repeat(`{"":0},`, 1<<17) + `{}]}`},
		{"a long path", `{"` + strings.Repeat(`a": {"`, 150) + strings.Repeat("b", 1<<20) + `": 1, "` + strings.Repeat("b", 1<<20) + `": 1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var v outer
			if err := (strictjson.Rules{Complete: true}).Unmarshal([]byte(c.text), &v); err == nil || len(err.Error()) > 1000 {
				t.Errorf("error %.200v, expected a short one", err)
			}
			runtime.ReadMemStats(&after)
			if used, most := after.TotalAlloc-before.TotalAlloc, uint64(24*len(c.text)+1<<16); used > most {
				t.Errorf("%d bytes of text took %d bytes of memory, expected at most %d", len(c.text), used, most)
			}
		})
	}
}

func TestReadObject(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"an object", `{"a": 1}`, ""},
		{"space before it", "\n" + strings.Repeat(" ", 600) + "{}", ""},
		{"as long as may be", "{" + strings.Repeat(" ", 998) + "}", ""},
		{"too long", "{" + strings.Repeat(" ", 999) + "}", "byte 1000: expected at most 1000 bytes"},
		{"nothing", "", "byte 0: expected an object, found nothing"},
		{"a model", " \x08\x0a\x12\x05torch", `byte 1: expected an object, found "\b\n\x12\x05tor`},
		{"a list", "[]", `byte 0: expected an object, found "[]"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.json")
			if err := os.WriteFile(path, []byte(c.text), 0o666); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for _, r := range []io.Reader{f, strings.NewReader(c.text)} {
				b, err := strictjson.ReadObject(r, 1000)
				if c.want == "" && (err != nil || string(b) != c.text) {
					t.Errorf("%d bytes, error %v, expected all %d", len(b), err, len(c.text))
				}
				if c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
					t.Errorf("error %v, expected %q", err, c.want)
				}
			}
		})
	}
}

// judge is a second opinion, based on the tokens of encoding/json: it reports whether
// a text is one value and no object in it has the same key twice.
func judge(text []byte) bool {
	if !utf8.Valid(text) || !json.Valid(text) {
		return false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value func() bool
	value = func() bool {
		start, err := d.Token()
		if err != nil {
			return false
		}
		keys := map[json.Token]bool{}
		for start == json.Delim('{') || start == json.Delim('[') {
			if !d.More() {
				_, err := d.Token()
				return err == nil
			}
			if start == json.Delim('{') {
				key, err := d.Token()
				if err != nil || keys[key] {
					return false
				}
				keys[key] = true
			}
			if !value() {
				return false
			}
		}
		return true
	}
	return value()
}

// FuzzUnmarshal compares the scan with the tokens of encoding/json.
func FuzzUnmarshal(f *testing.F) {
	for _, text := range []string{whole, `{"a": [1, -2.5e3, "x\n", true, null, {}]}`, `{"a": 1, "\u0061": 2}`, `[[[]]]`, `"\ud83d\ude00"`, `1`, ` nul`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var v any
		err := strictjson.Unmarshal(text, &v)
		switch good := judge(text); {
		case err == nil && !good:
			t.Fatalf("accepted: %q", text)
		case err != nil && good && !strings.Contains(err.Error(), "surrogate") && !strings.Contains(err.Error(), "levels") && !strings.Contains(err.Error(), "expected a number of 64 bits"):
			t.Fatalf("refused: %q: %v", text, err)
		}
		for _, rules := range []strictjson.Rules{{}, {Complete: true}, {Known: true}} {
			var o, plain outer
			fault := rules.Unmarshal(text, &o)
			switch {
			case fault == nil && err != nil:
				t.Fatalf("accepted for a struct, not in general: %q: %v", text, err)
			case fault == nil:
				if err := json.Unmarshal(text, &plain); err != nil {
					t.Fatalf("accepted: %q: %v", text, err)
				}
				fallthrough
			default: // what is refused leaves nothing behind, unless encoding/json refuses it
				if typ := (*json.UnmarshalTypeError)(nil); fault != nil && errors.As(json.Unmarshal(text, &outer{}), &typ) {
					continue
				}
				if got, want := dump(t, o), dump(t, plain); got != want {
					t.Fatalf("%q: decoded %s, expected %s", text, got, want)
				}
			}
		}
	})
}

// BenchmarkUnmarshal reads a list of objects, strictly and not.
func BenchmarkUnmarshal(b *testing.B) {
	text := []byte(`{"list": [` + strings.Repeat(`{"bytes": 123456, "names": ["tensor", "view of it"], "node": 17},`+"\n", 20000) + `{"bytes": 0, "names": []}]}`)
	for name, unmarshal := range map[string]func([]byte, any) error{"strict": strictjson.Unmarshal, "encoding-json": json.Unmarshal} {
		b.Run("reader="+name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				var v outer
				if err := unmarshal(text, &v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
