// Package strictjson decodes JSON that has one meaning for every reader.
//
// Package encoding/json uses the last of two equal keys, accepts "Offset" for
// "offset", replaces bytes that are not UTF-8 and unpaired surrogates by U+FFFD, and
// accepts null for any number. Another reader may use the first key or another
// field, so the plan that one program checks may not be the plan that the next one
// runs. In this package all of that is an error, in known and in unknown fields. One
// scan compares the text with the Go type of the result and decodes it. Only a text that
// the scan cannot decode goes to encoding/json, for its error.
//
// The scan takes O(n) time. It keeps the keys of the enclosing objects and refuses
// nesting beyond [MaxDepth], so its memory is proportional to the text.
package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// MaxDepth is the maximum nesting of lists and objects. Our own files need six
// levels; the rest is for fields that others add.
const MaxDepth = 200

// Rules are requirements beyond those that hold for every text.
type Rules struct {
	// Complete: all fields without omitempty are present, and only lists, maps and
	// pointers may be null. The fields of an embedded pointer are all present or all
	// absent. A text of n bytes then decodes into a small multiple of n bytes, since
	// every object in it contains its keys.
	Complete bool
	// Known: there are no unknown fields.
	Known bool
}

// Unmarshal decodes one JSON value into *v. An error is an *Error, or the error of an
// UnmarshalJSON method.
func Unmarshal(text []byte, v any) error { return Rules{}.Unmarshal(text, v) }

// Unmarshal decodes one JSON value into *v if it satisfies the rules. As encoding/json
// does, it keeps fields of *v that the text lacks; elements of lists are new. After an
// error, *v is as it was, but the elements of its lists may be others.
func (r Rules) Unmarshal(text []byte, v any) error {
	to := reflect.ValueOf(v).Elem()
	old := reflect.New(to.Type()).Elem()
	old.Set(to)
	s := scanner{text: text, rules: r}
	fault := s.document(shapeOf(to.Type()), to)
	if fault == nil && !s.strayed {
		return nil
	}
	to.Set(old)
	if fault != nil && fault != errSyntax {
		return fault
	}
	if err := json.Unmarshal(text, v); err != nil {
		return explain(err, len(text))
	}
	if fault != nil {
		return &Error{Offset: int64(s.at), What: "not JSON"} // unreachable: encoding/json refuses every text that the scan cannot parse
	}
	return nil
}

// Error is a fault in a text, and its place.
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

// explain turns an error of encoding/json into an *Error where possible.
func explain(err error, length int) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at := max(syntax.Offset-1, 0) // Offset includes the wrong byte
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

// Mismatch describes in plain words which type was expected and which was found.
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
		want = "a string"
	case reflect.Struct, reflect.Map:
		want = "an object"
	case reflect.Slice:
		want = "a list"
	}
	return fmt.Sprintf("expected %s, found %s", want, clip(err.Value))
}

// clip shortens a part of the text for a message.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
