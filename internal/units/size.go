package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes as people write it: 512KiB, 1.5GiB, 8GB, 4096.
type Size int64

var suffixes = []struct {
	name  string
	bytes float64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"kB", 1e3},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"K", 1 << 10},
	{"M", 1 << 20},
	{"G", 1 << 30},
	{"T", 1 << 40},
	{"B", 1},
}

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(text []byte) error {
	t := strings.TrimSpace(string(text))
	factor := 1.0
	for _, u := range suffixes {
		if rest, ok := strings.CutSuffix(t, u.name); ok {
			t, factor = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	v, err := strconv.ParseFloat(t, 64)
	if err != nil || v < 0 || v*factor >= math.MaxInt64 || math.IsNaN(v) {
		return fmt.Errorf("%q is not a size: expected a number of bytes such as 4096, 512KiB or 8GB", text)
	}
	*s = Size(v * factor)
	return nil
}

// MarshalText writes a size in a form that UnmarshalText reads back unchanged.
func (s Size) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(s), 10), nil }
