package units

import "testing"

func TestPool(t *testing.T) {
	for text, want := range map[string]Pool{
		"sram=256KiB":           {"sram", 256 << 10, 0},
		"psram=8MiB@100MB/s":    {"psram", 8 << 20, 100e6},
		" a = 1000 @ 1.5GiB/s ": {"a", 1000, 3 << 29},
	} {
		var p, again Pool
		if err := p.UnmarshalText([]byte(text)); err != nil || p != want {
			t.Errorf("%q is %v, %v: expected %v", text, p, err, want)
		}
		if b, err := p.MarshalText(); err != nil || again.UnmarshalText(b) != nil || again != p {
			t.Errorf("%q is written as %s, %v", text, b, err)
		}
	}
	for _, text := range []string{"", "sram", "=1KiB", "sram=", "sram=1KiB@", "sram=1KiB@100MB", "sram=-1", "sram=1KiB@0B/s"} {
		if err := new(Pool).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func FuzzPool(f *testing.F) {
	for _, text := range []string{"sram=256KiB", "psram=8MiB@100MB/s", "a=b@c", "=@"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var p, again Pool
		if p.UnmarshalText([]byte(text)) != nil {
			return
		}
		if b, err := p.MarshalText(); err != nil || again.UnmarshalText(b) != nil || again != p {
			t.Errorf("%q is written as %s, %v", text, b, err)
		}
	})
}
