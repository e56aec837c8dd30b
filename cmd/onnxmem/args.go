package main

import (
	"fmt"
	"reflect"
	"sort"
	"strings"
	"unicode"
)

// argsOf gives the flags of a command's struct as arguments that set them to
// what they are now; those that are zero are left out. The same values give the
// same list.
func argsOf(flags any) []string {
	return argsOfStruct(reflect.ValueOf(flags).Elem())
}

func argsOfStruct(v reflect.Value) (list []string) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if field.Anonymous {
			list = append(list, argsOfStruct(v.Field(i))...)
			continue
		}
		name := field.Tag.Get("name")
		if name == "" {
			name = kebab(field.Name)
		}
		if name == "json" || name == "verbose" {
			continue
		}
		list = append(list, flagArgs("--"+name, v.Field(i))...)
	}
	return list
}

func flagArgs(name string, v reflect.Value) []string {
	if v.IsZero() {
		return nil
	}
	switch v.Kind() {
	case reflect.Bool:
		return []string{name}
	case reflect.Pointer:
		return []string{fmt.Sprintf("%s=%v", name, v.Elem().Interface())}
	case reflect.Map:
		var list []string
		for _, k := range v.MapKeys() {
			list = append(list, fmt.Sprintf("%s=%v=%v", name, k.Interface(), v.MapIndex(k).Interface()))
		}
		sort.Strings(list)
		return list
	case reflect.Slice:
		var list []string
		for i := range v.Len() {
			list = append(list, fmt.Sprintf("%s=%v", name, v.Index(i).Interface()))
		}
		return list
	}
	return []string{fmt.Sprintf("%s=%v", name, v.Interface())}
}

// kebab is a field's name as a flag: LossOutput is loss-output.
func kebab(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
