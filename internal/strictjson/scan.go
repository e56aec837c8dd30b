package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/bits"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner scans a text once and decodes it on the way (decode.go). Where a value does not
// fit its type, or the syntax of a number, a literal or an escape is wrong, it only notes
// that it strayed: encoding/json then parses the whole text and finds the words.
type scanner struct {
	text    []byte
	at      int
	depth   int
	rules   Rules
	strayed bool
	texts   texts
}

// errSyntax means that the text is not JSON. The error of encoding/json replaces it.
var errSyntax = &Error{What: "not JSON"}

// generic is the shape of unknown fields.
var generic = &shape{nulls: true}

// none is the place of a value that is not decoded.
var none reflect.Value

// document scans a text that consists of one value, which it decodes into v.
func (s *scanner) document(t *shape, v reflect.Value) *Error {
	s.space()
	if err := s.value(t, v); err != nil {
		return err
	}
	if s.space(); s.at < len(s.text) {
		return s.fault(s.at, "expected the end of the text, found %q", s.glimpse(s.at))
	}
	return nil
}

func (s *scanner) fault(at int, format string, args ...any) *Error {
	return &Error{Offset: int64(at), What: fmt.Sprintf(format, args...)}
}

// glimpse returns the first bytes of the text at a place, for a message.
func (s *scanner) glimpse(at int) string {
	return strings.ToValidUTF8(string(s.text[at:min(at+8, len(s.text))]), "\uFFFD")
}

// peek returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// value scans the value at s.at and decodes it into v, unless that is none.
func (s *scanner) value(t *shape, v reflect.Value) *Error {
	begin := s.at
	if t.whole && v.IsValid() {
		if err := s.value(t, none); err != nil {
			return err
		}
		s.decodeWhole(s.text[begin:s.at], v)
		return nil
	}
	switch c := s.peek(); c {
	case '{', '[':
		if s.depth == MaxDepth {
			return s.fault(s.at, "expected at most %d levels of lists and objects, found more", MaxDepth)
		}
		s.depth++
		var err *Error
		if c == '{' {
			err = s.object(t, s.room(v, reflect.Struct, reflect.Map))
		} else {
			err = s.list(t, s.room(v, reflect.Slice))
		}
		s.depth--
		return err
	case '"':
		raw, escaped, err := s.string()
		if err == nil && v.IsValid() {
			s.decodeString(raw, escaped, s.room(v, reflect.String))
		}
		return err
	case 'n':
		if s.rules.Complete && !t.nulls && bytes.HasPrefix(s.text[s.at:], []byte("null")) {
			return s.fault(s.at, "expected a value, found null")
		}
	}
	if c := s.peek(); c != '-' && (c < '0' || c > '9') && c != 't' && c != 'f' && c != 'n' {
		return errSyntax
	}
	for s.at < len(s.text) && !ends[s.text[s.at]] {
		s.at++
	}
	s.decodeScalar(s.text[begin:s.at], v)
	return nil
}

// ends holds the bytes that end a number or a literal.
var ends = [256]bool{' ': true, '\t': true, '\r': true, '\n': true, ',': true, ':': true, ']': true, '}': true, '[': true, '{': true, '"': true}

func (s *scanner) list(t *shape, v reflect.Value) *Error {
	elem := t.elem
	if elem == nil || t.index != nil {
		elem = generic
	}
	s.at++
	if s.space(); s.peek() == ']' {
		s.at++
		if v.IsValid() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		return nil
	}
	if v.IsValid() {
		v.SetLen(0)
	}
	for i := 0; ; i++ {
		s.space()
		if err := s.value(elem, grown(v, i)); err != nil {
			return err.within("[" + strconv.Itoa(i) + "]")
		}
		s.space()
		switch s.peek() {
		case ',':
			s.at++
		case ']':
			s.at++
			return nil
		default:
			return errSyntax
		}
	}
}

func (s *scanner) object(t *shape, v reflect.Value) *Error {
	var seen uint64  // the known fields found so far, as bits
	var others names // all other keys
	next := 0        // the likely next field: our own files list them in order
	s.at++
	s.space()
	if s.peek() == '}' {
		s.at++
		return s.missing(t, 0)
	}
	for {
		s.space()
		begin := s.at
		key, escaped, err := s.string()
		if err != nil {
			return err
		}
		if escaped {
			var plain string
			if json.Unmarshal(s.text[begin:s.at], &plain) != nil {
				return errSyntax
			}
			key = []byte(plain)
		}
		inner, place := generic, none
		k, known := t.find(key, next)
		switch {
		case known:
			if seen&(1<<k) != 0 {
				return s.twice(begin, key)
			}
			seen |= 1 << k
			next, inner, place = k+1, t.fields[k].shape, t.fields[k].of(v)
		case t.index != nil:
			if other := t.folded(key); other != "" {
				return s.fault(begin, "expected the key %q, found %q", other, clip(string(key)))
			}
			if s.rules.Known {
				return s.fault(begin, "unknown field %q", clip(string(key)))
			}
		case t.elem != nil:
			inner = t.elem
			if v.IsValid() {
				place = reflect.New(v.Type().Elem()).Elem()
			}
		}
		if !known && !others.add(string(key)) {
			return s.twice(begin, key)
		}
		if s.space(); s.peek() != ':' {
			return errSyntax
		}
		s.at++
		s.space()
		if err := s.value(inner, place); err != nil {
			return err.within(label(key))
		}
		if !known && place.IsValid() {
			v.SetMapIndex(reflect.ValueOf(string(key)).Convert(v.Type().Key()), place)
		}
		s.space()
		switch s.peek() {
		case ',':
			s.at++
		case '}':
			s.at++
			return s.missing(t, seen)
		default:
			return errSyntax
		}
	}
}

func (s *scanner) twice(at int, key []byte) *Error {
	return s.fault(at, "key %q occurs twice", clip(string(key)))
}

// missing returns an error that names a required field that the object lacks, if any.
func (s *scanner) missing(t *shape, seen uint64) *Error {
	if !s.rules.Complete || bits.OnesCount64(seen) == len(t.fields) {
		return nil
	}
	var groups uint64 // groups with at least one field present
	for k := range t.fields {
		if seen&(1<<k) != 0 {
			groups |= 1 << t.fields[k].group
		}
	}
	groups |= 1
	for k := range t.fields {
		if f := &t.fields[k]; f.required && seen&(1<<k) == 0 && groups&(1<<f.group) != 0 {
			return s.fault(s.at-1, "%q is missing", f.name)
		}
	}
	return nil
}

// find returns the index of the field named key. It tries next first.
func (t *shape) find(key []byte, next int) (int, bool) {
	if next < len(t.fields) && t.fields[next].name == string(key) {
		return next, true
	}
	k, known := t.index[string(key)]
	return k, known
}

// folded returns the name of the field that equals the key but for case, or "".
// encoding/json would accept the key for that field.
func (t *shape) folded(key []byte) string {
	for k := range t.fields {
		if strings.EqualFold(t.fields[k].name, string(key)) {
			return t.fields[k].name
		}
	}
	return ""
}

// string scans a string and returns the bytes between its quotes.
func (s *scanner) string() (raw []byte, escaped bool, err *Error) {
	if s.peek() != '"' {
		return nil, false, errSyntax
	}
	s.at++
	begin, ascii := s.at, true
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '"':
			raw = s.text[begin:s.at]
			s.at++
			if !ascii && !utf8.Valid(raw) {
				return nil, false, s.fault(begin+validPrefix(raw), "expected UTF-8, found byte %#x", raw[validPrefix(raw)])
			}
			return raw, escaped, nil
		case c == '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return nil, false, err
			}
		default:
			s.strayed = s.strayed || c < ' '
			ascii = ascii && c < utf8.RuneSelf
			s.at++
		}
	}
	return nil, false, errSyntax
}

// escape scans one escape, or both escapes of a surrogate pair.
func (s *scanner) escape() *Error {
	begin := s.at
	r, ok := s.hex()
	if !ok {
		s.strayed = s.strayed || begin+1 >= len(s.text) || !escapes[s.text[begin+1]]
		s.at = begin + 2
		return nil
	}
	if !utf16.IsSurrogate(r) {
		return nil
	}
	if low, ok := s.hex(); !ok || utf16.DecodeRune(r, low) == utf8.RuneError {
		return s.fault(begin, "expected both halves of a surrogate pair, found %q alone", s.text[begin:begin+6])
	}
	return nil
}

// escapes holds the bytes that may follow a backslash, but for u.
var escapes = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// hex scans \uXXXX.
func (s *scanner) hex() (rune, bool) {
	if !bytes.HasPrefix(s.text[s.at:], []byte(`\u`)) || len(s.text)-s.at < 6 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s.text[s.at+2:s.at+6]), 16, 16)
	if err != nil {
		return 0, false
	}
	s.at += 6
	return rune(n), true
}

// validPrefix returns the length of the longest prefix that is UTF-8.
func validPrefix(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}

// within prepends a step to the path of an error.
func (e *Error) within(step string) *Error {
	const most = 200
	if e == errSyntax || len(e.Where) > most {
		return e
	}
	switch {
	case e.Where == "" || e.Where[0] == '[':
		e.Where = step + e.Where
	default:
		e.Where = step + "." + e.Where
	}
	return e
}

// label returns a key as a step of a path, quoted unless it is a plain name.
func label(key []byte) string {
	text := clip(string(key))
	for i := range len(text) {
		if c := text[i]; c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return strconv.Quote(text)
		}
	}
	return text
}

// names is a set of keys. It is a list while it is small, as in most objects.
type names struct {
	list []string
	set  map[string]struct{}
}

// fewNames is the number of keys up to which names is a list.
const fewNames = 8

// add adds a key and reports whether it is new.
func (n *names) add(key string) bool {
	if n.set != nil {
		_, there := n.set[key]
		n.set[key] = struct{}{}
		return !there
	}
	for _, k := range n.list {
		if k == key {
			return false
		}
	}
	if n.list = append(n.list, key); len(n.list) > fewNames {
		n.set = make(map[string]struct{}, 4*fewNames)
		for _, k := range n.list {
			n.set[k] = struct{}{}
		}
		n.list = nil
	}
	return true
}
