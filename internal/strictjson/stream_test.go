package strictjson

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// streamed is an object with a list that is read a few elements at a time.
type streamed struct {
	Name string
	List []streamedElement
}

type streamedElement struct {
	N    int            `json:"n"`
	Args []int          `json:"args"`
	Text string         `json:"text"`
	More map[string]any `json:"more"`
}

// readStreamed reads an object with batches of at least batch bytes.
func readStreamed(r io.Reader, batch int) (v streamed, err error) {
	s := NewStream(r, 1<<20)
	s.batch = batch
	err = s.Object([]string{"Name", "List"}, func(key string) error {
		switch key {
		case "Name":
			return s.Decode(&v.Name, key, Rules{})
		case "List":
			var some []streamedElement
			found, err := s.List(key, &some, func(first int) error {
				if first != len(v.List) {
					return errors.New("the index of the first element is wrong")
				}
				v.List = append(v.List, some...)
				return nil
			})
			if found && v.List == nil {
				v.List = []streamedElement{}
			}
			return err
		}
		var skipped any
		return s.Decode(&skipped, key, Rules{})
	})
	return v, err
}

func TestStream(t *testing.T) {
	const known = ` { "Name" : "a\"]}\\" , "List" : [ {"n":1,"args":[1,2]} , {"text":"[{,"},
	{"args":[],"more":{"x":[{}]}},{} ] `
	const text = known + `, "other":[1,{"a":null}] , "last":-1.5e3 } `
	var want streamed
	if err := Unmarshal([]byte(known+"}"), &want); err != nil {
		t.Fatal(err)
	}
	for _, batch := range []int{1, 2, 30, 60, 1 << 16} {
		for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			if got, err := readStreamed(r, batch); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("batches of %d bytes: got %+v, %v\nwant %+v", batch, got, err, want)
			}
		}
	}
}

func TestStreamRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "byte 0: unexpected end of JSON input"},
		{"[]", `byte 0: expected an object, found "[]"`},
		{`{"List":[{"n":1},{"n":2},{"n":3,"n":4}]}`, `byte 32: List[2]: key "n" occurs twice`},
		{`{"List":[{"n":1},  {"N":2}]}`, `byte 20: List[1]: expected the key "n", found "N"`},
		{`{"List":[{"n":1},{"more":{"a":{"b":1,"b":2}}}]}`, `byte 37: List[1].more.a: key "b" occurs twice`},
		{`{"List":[{"n":"x"}]}`, "byte 17: List.n: expected a whole number of 64 bits, found string"},
		{`{"List":{}}`, "List: expected a list, found object"},
		{`{"list":[]}`, `byte 1: expected the key "List", found "list"`},
		{`{"a":1,"a":2}`, `byte 7: key "a" occurs twice`},
		{`{"a":1}x`, `byte 7: expected the end of the text, found "x"`},
		{`{"a":1,}`, `byte 7: expected a key, found "}"`},
		{`{"a" 1}`, `byte 5: expected ":", found "1}"`},
		{`{"a":}`, `byte 5: a: expected a value, found "}"`},
		{`{"a":1 2}`, `byte 7: expected "," or "}", found "2}"`},
		{`{"List":[{} {}]}`, `byte 12: expected "," or "]", found "{}]}"`},
		{`{"List":[{} ,`, "byte 13: unexpected end of JSON input"},
		{`{"List":[,]}`, `byte 9: expected a value, found ",]}"`},
		{`{"a":"` + strings.Repeat("x", 2<<20), "a: expected at most 1048576 bytes in a value, found more"},
		{"{\"a\":\"\xff\"}", "byte 6: a: expected UTF-8, found byte 0xff"},
	} {
		for _, batch := range []int{1, 1 << 16} {
			if _, err := readStreamed(strings.NewReader(c.text), batch); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%.60q, batches of %d bytes: got %v, want %s", c.text, batch, err, c.want)
			}
		}
	}
	broken := errors.New("broken")
	if _, err := readStreamed(io.MultiReader(strings.NewReader(`{"List":[{}`), iotest.ErrReader(broken)), 1); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

// FuzzStream: reading in parts and at once gives the same result.
func FuzzStream(f *testing.F) {
	f.Add(`{"Name":"a","List":[{"n":1,"args":[1,2]},{"text":"\u00e9"},{}]}`, 5)
	f.Add(`{"List":null,"x":[[{}]]}`, 1)
	f.Add(` {"List" : [ {} , {"more":{"a":1,"a":2}} ]}`, 20)
	f.Fuzz(func(t *testing.T, text string, batch int) {
		if strings.Count(text, "[")+strings.Count(text, "{") > MaxDepth-2 || strings.TrimLeft(text, " \t\r\n") == "null" {
			return // each part may have the full depth, and Object refuses null
		}
		var want struct {
			Name string
			List []streamedElement
		}
		wrong := Unmarshal([]byte(text), &want)
		got, err := readStreamed(strings.NewReader(text), max(batch, 1))
		if (err == nil) != (wrong == nil) {
			t.Fatalf("%q: in parts %v, at once %v", text, err, wrong)
		}
		if err == nil && !reflect.DeepEqual(got, streamed(want)) {
			t.Fatalf("%q: in parts %+v, at once %+v", text, got, want)
		}
	})
}
