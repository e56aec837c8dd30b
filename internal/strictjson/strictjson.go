// Package strictjson decodes JSON that has one meaning for every reader.
//
// Package encoding/json takes the last of two equal keys, takes "Offset" for
// "offset", puts U+FFFD in the place of bytes that are not UTF-8 and of halves of
// surrogate pairs, and lets null stand for any number. Another reader of the same
// file takes the first key, or another field: a plan that one program has checked is
// not the plan that the next one runs. Here all of that is an error, in known fields
// and in those that are not known. A scan of the text compares it with the Go type
// that it is read into; then encoding/json decodes it.
//
// The scan takes O(n) time. It keeps the keys of the objects around a place, and
// refuses deeper nesting than [MaxDepth]: nothing that it takes grows faster than the
// text.
package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// MaxDepth is how deep lists and objects may stand in each other. Our own files
// need six levels; what others add beside our fields may take the rest.
const MaxDepth = 200

// Rules say what a text must keep to beside the rules that hold for every text.
type Rules struct {
	// Complete: all fields without omitempty stand there, none of them null but
	// lists, objects of any keys, and pointers. Of the fields of an embedded pointer
	// all stand there or none does. A text of n bytes then decodes into a small
	// multiple of n bytes: no value is shorter in JSON than its keys.
	Complete bool
	// Known: no other fields stand there.
	Known bool
}

// Unmarshal decodes one JSON value into what v points to. An error is an *Error,
// or one that an UnmarshalJSON of v's has made.
func Unmarshal(text []byte, v any) error { return Rules{}.Unmarshal(text, v) }

// Unmarshal decodes one JSON value that keeps to the rules.
func (r Rules) Unmarshal(text []byte, v any) error {
	s := scanner{text: text, rules: r}
	fault := s.document(shapeOf(reflect.TypeOf(v).Elem()))
	if fault != nil && fault != errSyntax {
		return fault
	}
	if err := json.Unmarshal(text, v); err != nil {
		return explain(err, len(text))
	}
	if fault != nil {
		return &Error{Offset: int64(s.at), What: "not JSON"} // not reached: encoding/json refuses what the scan cannot read
	}
	return nil
}

// Error says what is wrong with a text, and where.
type Error struct {
	Offset int64  // of the byte, from 0
	Where  string // the place as a path of keys, such as buffers[3].offset; "" for the whole
	What   string
}

// Error prints the place and the fault in one line.
func (e *Error) Error() string {
	if e.Where == "" {
		return fmt.Sprintf("byte %d: %s", e.Offset, e.What)
	}
	return fmt.Sprintf("byte %d: %s: %s", e.Offset, e.Where, e.What)
}

// explain turns an error of encoding/json into one of ours.
func explain(err error, length int) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at := max(syntax.Offset-1, 0) // it counts the byte that is wrong
		if syntax.Error() == "unexpected end of JSON input" {
			at = int64(length)
		}
		return &Error{Offset: at, What: syntax.Error()}
	}
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) {
		return &Error{Offset: typ.Offset, Where: clip(typ.Field), What: Mismatch(typ)}
	}
	return err
}

// Mismatch says in our words what was expected and what was found.
func Mismatch(err *json.UnmarshalTypeError) string {
	want := err.Type.String()
	switch err.Type.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		want = fmt.Sprintf("a whole number of %d bits", err.Type.Bits())
	case reflect.Float32, reflect.Float64:
		want = fmt.Sprintf("a number of %d bits", err.Type.Bits())
	case reflect.Bool:
		want = "true or false"
	case reflect.String:
		want = "a text"
	case reflect.Struct, reflect.Map:
		want = "an object"
	case reflect.Slice:
		want = "a list"
	}
	return fmt.Sprintf("expected %s, found %s", want, clip(err.Value))
}

// clip shortens what a text says to what a line of a message holds.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
