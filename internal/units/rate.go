package units

import (
	"fmt"
	"strconv"
	"strings"
)

// Rate is a number of bytes a second as people write it: 12GB/s, 500MiB/s.
type Rate int64

// UnmarshalText reads a rate.
func (r *Rate) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(strings.TrimSpace(string(text)), "/s")
	var s Size
	if !ok || s.UnmarshalText([]byte(number)) != nil || s == 0 {
		return fmt.Errorf("%q is no rate: expected bytes a second such as 12GB/s", text)
	}
	*r = Rate(s)
	return nil
}

// MarshalText writes a rate so that it can be read again.
func (r Rate) MarshalText() ([]byte, error) {
	return append(strconv.AppendInt(nil, int64(r), 10), "B/s"...), nil
}

// String prints a rate in the decimal units that links are sold by.
func (r Rate) String() string {
	return strconv.FormatFloat(float64(r)/1e9, 'g', 4, 64) + " GB/s"
}
