package units

import (
	"fmt"
	"strconv"
	"strings"
)

// Limit is a number of bytes as people write it, or a percentage: 8GiB, 60%.
type Limit struct {
	Bytes   int64
	Percent float64 // more than 0 and at most 100 for a percentage, else 0
}

// UnmarshalText reads a limit.
func (l *Limit) UnmarshalText(text []byte) error {
	number, share := strings.CutSuffix(strings.TrimSpace(string(text)), "%")
	if share {
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(v > 0 && v <= 100) {
			return fmt.Errorf("%q is not a percentage: expected more than 0%% and at most 100%%", text)
		}
		*l = Limit{Percent: v}
		return nil
	}
	var s Size
	if err := s.UnmarshalText(text); err != nil {
		return fmt.Errorf("%w, or a percentage such as 60%%", err)
	}
	*l = Limit{Bytes: int64(s)}
	return nil
}

// MarshalText writes a limit in a form that UnmarshalText reads back unchanged.
func (l Limit) MarshalText() ([]byte, error) {
	if l.Percent > 0 {
		return []byte(strconv.FormatFloat(l.Percent, 'g', -1, 64) + "%"), nil
	}
	return strconv.AppendInt(nil, l.Bytes, 10), nil
}

// Of returns the limit in bytes, where a percentage is that of a peak, rounded down.
func (l Limit) Of(peak int64) int64 {
	if l.Percent == 0 {
		return l.Bytes
	}
	if whole := int64(l.Percent); float64(whole) == l.Percent {
		return peak/100*whole + peak%100*whole/100
	}
	return int64(float64(peak) * l.Percent / 100)
}
