package alloc

import (
	"reflect"
	"testing"
)

// TestEfforts: each effort allows less work than the next, in every stage; the
// largest ten times that of the default, and Short makes the default shorter alone.
func TestEfforts(t *testing.T) {
	of := func(opt Options) reflect.Value {
		return reflect.ValueOf((&solver{opt: opt}).effort())
	}
	fast, short, usual, most := of(Options{Effort: EffortFast}), of(Options{Short: true}), of(Options{}), of(Options{Effort: EffortMax})
	for i := range usual.NumField() {
		name := usual.Type().Field(i).Name
		if f, s, u, m := fast.Field(i).Int(), short.Field(i).Int(), usual.Field(i).Int(), most.Field(i).Int(); f > s || s > u || 10*u > m {
			t.Errorf("%s: %d, %d, %d, %d: expected each at least the one before, the last ten times the third", name, f, s, u, m)
		}
	}
	for _, e := range []Effort{EffortFast, EffortMax} {
		if short := (&solver{opt: Options{Effort: e, Short: true}}).effort(); short != (&solver{opt: Options{Effort: e}}).effort() {
			t.Errorf("effort %d is another with Short", e)
		}
	}
}

// TestOptionsValidate: what no problem would make right is refused by name.
func TestOptionsValidate(t *testing.T) {
	for _, c := range []struct {
		opt  Options
		want string
	}{
		{Options{}, ""},
		{Options{Effort: EffortMax, Short: true, Capacity: 7, Strategy: "best-fit"}, ""},
		{Options{Capacity: -1}, "capacity: expected 0 or more bytes, found -1"},
		{Options{Effort: 9}, "effort: expected EffortDefault, EffortFast or EffortMax, found 9"},
	} {
		got := ""
		if err := c.opt.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: got %q, expected %q", c.opt, got, c.want)
		}
	}
}
