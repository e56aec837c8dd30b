package units

import "testing"

func TestRate(t *testing.T) {
	for text, want := range map[string]Rate{"12GB/s": 12e9, " 1.5 GiB/s": 3 << 29, "4096B/s": 4096, "7/s": 7} {
		var r, again Rate
		if err := r.UnmarshalText([]byte(text)); err != nil || r != want {
			t.Errorf("%q is %d, %v: expected %d", text, r, err, want)
		}
		if b, err := r.MarshalText(); err != nil || again.UnmarshalText(b) != nil || again != r {
			t.Errorf("%q is written as %s, %v", text, b, err)
		}
	}
	for _, text := range []string{"", "12GB", "/s", "0GB/s", "-1GB/s", "NaN/s", "1e300GB/s"} {
		if err := new(Rate).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	if got := Rate(12_500_000_000).String(); got != "12.5 GB/s" {
		t.Errorf("printed as %s", got)
	}
}
