// Package units prints numbers of bytes, and names, for people, and adds numbers of
// bytes that others may have chosen.
package units

import (
	"fmt"
	"strconv"
)

// Bytes returns a size with its exact figure, as "7.66 MiB (8,028,160 B)", or as
// "512 B" below 1 KiB.
func Bytes(n int64) string {
	if n < 1024 && n > -1024 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%s (%s B)", Short(n), Group(n))
}

// Short returns a size in binary units with two decimals, as "7.66 MiB".
func Short(n int64) string {
	if n < 1024 && n > -1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n), 0
	for v >= 1024 || v <= -1024 {
		v /= 1024
		unit++
	}
	return fmt.Sprintf("%.2f %ciB", v, " KMGTPE"[unit])
}

// Group returns a number with commas between groups of three digits.
func Group(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}
