package units

import "testing"

func TestLimit(t *testing.T) {
	for text, want := range map[string]Limit{
		"8GiB": {Bytes: 8 << 30}, "60%": {Percent: 60}, " 12.5 %": {Percent: 12.5}, "100%": {Percent: 100}, "4096": {Bytes: 4096}, "0": {},
	} {
		var l Limit
		if err := l.UnmarshalText([]byte(text)); err != nil || l != want {
			t.Errorf("%q is %+v, %v: expected %+v", text, l, err, want)
		}
		var again Limit
		if b, err := l.MarshalText(); err != nil || again.UnmarshalText(b) != nil || again != l {
			t.Errorf("%q is written as %s, %v", text, b, err)
		}
	}
	for _, text := range []string{"", "%", "0%", "-5%", "101%", "NaN%", "8XB", "-1"} {
		if err := new(Limit).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
