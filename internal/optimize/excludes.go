package optimize

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/passes"
)

// Refuse returns an error if features that a command line asks for exclude each other, or if
// one needs another ([passes.CheckFeatures]). flags are pointers to structs of flags; opt is
// what they say for the passes, as far as that is known, or nil.
func Refuse(opt *passes.Options, flags ...any) error {
	var fields []flag
	for _, f := range flags {
		fields = flagsOf(fields, reflect.ValueOf(f).Elem())
	}
	value := func(f passes.Feature) (_ flag, value string, known bool) {
		name, value, _ := strings.Cut(strings.TrimPrefix(f.Flag, "--"), " ")
		for _, x := range fields {
			if x.named(name) {
				return x, value, true
			}
		}
		return flag{}, "", false
	}
	known := func(f passes.Feature) bool {
		_, _, known := value(f)
		return known
	}
	asked := func(f passes.Feature) bool {
		x, value, known := value(f)
		switch {
		case opt != nil && f.Asked(opt):
			return true
		case !known:
			return false
		case f.Field != "" && strings.ContainsAny(value, "-=."): // such a value is one of opt alone
			return false
		case value == "":
			return x.given()
		case strings.HasPrefix(value, "--"): // two flags together
			return x.given() && slices.ContainsFunc(fields, func(y flag) bool { return y.named(value[len("--"):]) && y.given() })
		case x.name == "Loss":
			return autodiff.HasLoss(x.text(), value)
		}
		return x.text() == value
	}
	if e := passes.CheckFeatures(asked, known); e != nil {
		return &UsageError{e.Flags()}
	}
	return nil
}

// flag is the field of a flag.
type flag struct {
	name, tag, standard string
	value               reflect.Value
}

// flagsOf adds the fields of a struct, and of those in it.
func flagsOf(list []flag, v reflect.Value) []flag {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch {
		case f.Anonymous:
			list = flagsOf(list, v.Field(i))
		case f.IsExported():
			list = append(list, flag{f.Name, f.Tag.Get("name"), f.Tag.Get("default"), v.Field(i)})
		}
	}
	return list
}

// named reports whether a flag has that name, without dashes before it.
func (f flag) named(name string) bool {
	return f.tag == name || strings.EqualFold(f.name, strings.ReplaceAll(name, "-", ""))
}

// text is the value of a flag.
func (f flag) text() string { return fmt.Sprint(f.value.Interface()) }

// given reports whether a flag has another value than that which it has by itself.
func (f flag) given() bool {
	if v := f.value; v.Kind() == reflect.Pointer {
		return !v.IsNil() && (v.Elem().Kind() != reflect.Bool || v.Elem().Bool())
	}
	return !f.value.IsZero() && (f.standard == "" || f.text() != f.standard)
}
