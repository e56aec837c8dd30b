package strictjson

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// shape is the part of a Go type that the scan needs. It is empty for strings,
// numbers and types with an UnmarshalJSON method.
type shape struct {
	fields []field        // of a struct
	index  map[string]int // name of a field -> its index; nil: not a struct
	elem   *shape         // of a list or a map
	nulls  bool           // null is a valid value
}

type field struct {
	name     string
	shape    *shape
	required bool
	group    int // the embedded pointer that it belongs to; 0: none
}

// maxFields limits the fields of a struct: the scan keeps a bit for each.
const maxFields = 64

var (
	shapes      sync.Map // reflect.Type -> *shape
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
)

func shapeOf(t reflect.Type) *shape {
	if s, known := shapes.Load(t); known {
		return s.(*shape)
	}
	s := build(t, map[reflect.Type]*shape{})
	shapes.Store(t, s)
	return s
}

// build makes the shape of a type. known holds the shapes that are being built, for
// recursive types.
func build(t reflect.Type, known map[reflect.Type]*shape) *shape {
	if s := known[t]; s != nil {
		return s
	}
	s := &shape{}
	known[t] = s
	own := t.Implements(unmarshaler) || reflect.PointerTo(t).Implements(unmarshaler)
	switch t.Kind() {
	case reflect.Pointer:
		*s = *build(t.Elem(), known)
		s.nulls = true
	case reflect.Struct:
		if own && !tagged(t) {
			break // the fields that its UnmarshalJSON reads are unknown
		}
		s.index = map[string]int{}
		groups := 0
		s.add(t, 0, &groups, known)
		if len(s.fields) > maxFields {
			panic("strictjson: " + t.String() + " has too many fields")
		}
	case reflect.Slice, reflect.Array:
		s.nulls = t.Kind() == reflect.Slice
		if !own && t.Elem().Kind() != reflect.Uint8 { // []byte is a string in JSON
			s.elem = build(t.Elem(), known)
		}
	case reflect.Map:
		s.nulls = true
		if !own {
			s.elem = build(t.Elem(), known)
		}
	case reflect.Interface:
		s.nulls = true
	}
	return s
}

// tagged reports whether all fields of a struct have JSON tags. If such a struct has
// an UnmarshalJSON method, the scan assumes that it reads these fields.
func tagged(t reflect.Type) bool {
	for f := range t.Fields() {
		if f.IsExported() && f.Tag.Get("json") == "" {
			return false
		}
	}
	return t.NumField() > 0
}

// add adds the fields of a struct, including those of embedded structs.
func (s *shape) add(t reflect.Type, group int, groups *int, known map[reflect.Type]*shape) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			inner, g := f.Type, group
			if inner.Kind() == reflect.Pointer {
				*groups++
				inner, g = inner.Elem(), *groups
			}
			if inner.Kind() == reflect.Struct {
				s.add(inner, g, groups, known)
				continue
			}
		}
		if name == "-" || !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		s.index[name] = len(s.fields)
		s.fields = append(s.fields, field{
			name: name, shape: build(f.Type, known), group: group,
			required: !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero"),
		})
	}
}
