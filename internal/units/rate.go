package units

import (
	"fmt"
	"strconv"
	"strings"
)

// Rate is a number of bytes per second as people write it: 12GB/s, 500MiB/s.
type Rate int64

// UnmarshalText reads a rate.
func (r *Rate) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(strings.TrimSpace(string(text)), "/s")
	var s Size
	if !ok || s.UnmarshalText([]byte(number)) != nil || s == 0 {
		return fmt.Errorf("%q is not a rate: expected bytes per second such as 12GB/s", text)
	}
	*r = Rate(s)
	return nil
}

// MarshalText writes a rate in a form that UnmarshalText reads back unchanged.
func (r Rate) MarshalText() ([]byte, error) {
	return append(strconv.AppendInt(nil, int64(r), 10), "B/s"...), nil
}

// String returns a rate in GB/s, the unit in which vendors state the speed of links.
func (r Rate) String() string {
	return strconv.FormatFloat(float64(r)/1e9, 'g', 4, 64) + " GB/s"
}
