package main

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
)

// unchangedText passes texts of the command line on unchanged: kong would send
// them through JSON, which cannot hold names of files that are not UTF-8.
var unchangedText = []kong.Option{
	kong.KindMapper(reflect.String, kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		text, err := popText(ctx)
		if err == nil {
			target.SetString(text)
		}
		return err
	})),
	kong.TypeMapper(reflect.TypeFor[map[string]string](), kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		text, err := popText(ctx)
		if err != nil {
			return err
		}
		values, _ := target.Interface().(map[string]string)
		if values == nil {
			values = map[string]string{}
		}
		for _, item := range kong.SplitEscaped(text, ctx.Value.Tag.MapSep) {
			name, value, ok := strings.Cut(item, "=")
			if !ok {
				return fmt.Errorf("expected NAME=VALUE, found %q", item)
			}
			values[name] = value
		}
		target.Set(reflect.ValueOf(values))
		return nil
	})),
}

func popText(ctx *kong.DecodeContext) (string, error) {
	t, err := ctx.Scan.PopValue("string")
	return fmt.Sprint(t.Value), err
}
