package strictjson

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// shape is the part of a Go type that the scan needs. It has no fields and no elements
// for strings, numbers and types with an UnmarshalJSON method.
type shape struct {
	fields []field        // of a struct
	index  map[string]int // name of a field -> its index; nil: not a struct
	elem   *shape         // of a list or a map
	nulls  bool           // null is a valid value
	// whole: the value is decoded when all of its text has been scanned, by its
	// UnmarshalJSON method or by encoding/json.
	whole bool
	open  bool // it is being built
}

type field struct {
	name     string
	shape    *shape
	required bool
	group    int   // the embedded pointer that it belongs to; 0: none
	path     []int // the index of the field in its struct, behind those of the embedded structs
}

// of returns the field of a struct. It makes the embedded structs that it lies in.
func (f *field) of(v reflect.Value) reflect.Value {
	if !v.IsValid() {
		return none
	}
	for i, k := range f.path {
		if i > 0 {
			v = made(v)
		}
		v = v.Field(k)
	}
	return v
}

// maxFields limits the fields of a struct: the scan keeps a bit for each.
const maxFields = 64

var (
	shapes      sync.Map // reflect.Type -> *shape
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textual     = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// has reports whether values of a type have the methods of an interface.
func has(t, methods reflect.Type) bool {
	return t.Implements(methods) || reflect.PointerTo(t).Implements(methods)
}

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
	s := &shape{open: true}
	known[t] = s
	defer func() { s.open = false }()
	own := has(t, unmarshaler)
	s.whole = own || has(t, textual)
	switch t.Kind() {
	case reflect.Pointer:
		inner := build(t.Elem(), known)
		*s = *inner
		s.nulls = true
		s.whole = s.whole || inner.open // not all of its fields are known yet
	case reflect.Struct:
		if own && !tagged(t) {
			break // the fields that its UnmarshalJSON reads are unknown
		}
		s.index = map[string]int{}
		groups := 0
		s.add(t, nil, 0, &groups, known)
		if len(s.fields) > maxFields {
			panic("strictjson: " + t.String() + " has too many fields")
		}
	case reflect.Slice, reflect.Array:
		s.nulls = t.Kind() == reflect.Slice
		s.whole = s.whole || t.Kind() == reflect.Array || t.Elem().Kind() == reflect.Uint8
		if !own && t.Elem().Kind() != reflect.Uint8 { // []byte is a string in JSON
			s.elem = build(t.Elem(), known)
		}
	case reflect.Map:
		s.nulls = true
		s.whole = s.whole || t.Key().Kind() != reflect.String || has(t.Key(), textual)
		if !own {
			s.elem = build(t.Elem(), known)
		}
	case reflect.Interface:
		s.nulls = true
		s.whole = true
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
		s.whole = s.whole || t == number
	default:
		s.whole = true
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
func (s *shape) add(t reflect.Type, path []int, group int, groups *int, known map[reflect.Type]*shape) {
	for i := range t.NumField() {
		f, path := t.Field(i), append(slices.Clip(path), i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			inner, g := f.Type, group
			if inner.Kind() == reflect.Pointer {
				*groups++
				inner, g = inner.Elem(), *groups
			}
			if inner.Kind() == reflect.Struct {
				s.add(inner, path, g, groups, known)
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
			name: name, shape: build(f.Type, known), group: group, path: path,
			required: !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero"),
		})
	}
}
