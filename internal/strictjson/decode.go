package strictjson

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
)

// number is a string for which JSON has a number.
var number = reflect.TypeFor[json.Number]()

// made returns what a pointer points to, and makes it if it is nil.
func made(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	return v
}

// room returns the place for a value of one of some kinds: v, or what it points to. It
// returns none if v has another kind.
func (s *scanner) room(v reflect.Value, kinds ...reflect.Kind) reflect.Value {
	if !v.IsValid() {
		return none
	}
	v = made(v)
	if !slices.Contains(kinds, v.Kind()) {
		s.strayed = true
		return none
	}
	if v.Kind() == reflect.Map && v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	return v
}

// grown returns element i of a list of i elements, which it appends.
func grown(v reflect.Value, i int) reflect.Value {
	if !v.IsValid() {
		return none
	}
	if i == v.Cap() {
		v.Grow(1)
	}
	v.SetLen(i + 1)
	elem := v.Index(i)
	elem.SetZero()
	return elem
}

// decodeWhole decodes the text of a value whose type package reflect says too little of.
func (s *scanner) decodeWhole(text []byte, v reflect.Value) {
	if s.strayed {
		return // the text may not be JSON
	}
	to := v.Addr().Interface()
	if own, is := to.(json.Unmarshaler); is && string(text) != "null" {
		s.strayed = own.UnmarshalJSON(text) != nil
	} else {
		s.strayed = json.Unmarshal(text, to) != nil
	}
}

// decodeString decodes a string whose UTF-8 and surrogates are valid.
func (s *scanner) decodeString(raw []byte, escaped bool, v reflect.Value) {
	switch {
	case !v.IsValid() || s.strayed:
	case escaped:
		text := ""
		s.strayed = json.Unmarshal(s.text[s.at-len(raw)-2:s.at], &text) != nil
		v.SetString(text)
	default:
		v.SetString(s.texts.of(raw))
	}
}

// decodeScalar decodes a number, true, false or null.
func (s *scanner) decodeScalar(text []byte, v reflect.Value) {
	switch string(text) {
	case "null":
		if v.IsValid() && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Map || v.Kind() == reflect.Slice) {
			v.SetZero()
		}
		return
	case "true", "false":
		if v := s.room(v, reflect.Bool); v.IsValid() {
			v.SetBool(text[0] == 't')
		}
		return
	}
	valid, whole := isNumber(text)
	s.strayed = s.strayed || !valid
	if v = s.room(v, reflect.Int, reflect.Int64, reflect.Float64); !v.IsValid() || !valid {
		return
	}
	var err error
	switch v.Kind() {
	case reflect.Float64:
		var x float64
		x, err = strconv.ParseFloat(string(text), 64)
		v.SetFloat(x)
	default:
		var n int64
		n, err = strconv.ParseInt(string(text), 10, v.Type().Bits())
		v.SetInt(n)
	}
	s.strayed = s.strayed || err != nil || !whole && v.Kind() != reflect.Float64
}

// isNumber reports whether a text is a number of JSON, and whether it has neither a
// fraction nor an exponent.
func isNumber(text []byte) (valid, whole bool) {
	i := 0
	skip := func(set string) bool {
		if i < len(text) && (text[i] == set[0] || len(set) > 1 && text[i] == set[1]) {
			i++
			return true
		}
		return false
	}
	digits := func() bool {
		begin := i
		for i < len(text) && '0' <= text[i] && text[i] <= '9' {
			i++
		}
		return i > begin
	}
	skip("-")
	if !skip("0") && !digits() {
		return false, false
	}
	end := i
	if skip(".") && !digits() {
		return false, false
	}
	if skip("eE") {
		skip("+-")
		if !digits() {
			return false, false
		}
	}
	return i == len(text), i == end
}

// texts keeps short strings that it has made, since names of operators, kinds and pools
// occur in a plan as often as its buffers.
type texts [64]string

// of returns the text as a string.
func (t *texts) of(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	if len(raw) > 16 {
		return string(raw)
	}
	h := uint32(2166136261) // FNV-1a
	for _, c := range raw {
		h = (h ^ uint32(c)) * 16777619
	}
	kept := &t[h>>16%uint32(len(t))]
	if *kept != string(raw) {
		*kept = string(raw)
	}
	return *kept
}
