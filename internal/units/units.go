// Package units prints numbers of bytes, and names, for people.
package units

import (
	"fmt"
	"strconv"
)

// Bytes prints a size with its exact figure, as "7.66 MiB (8,028,160 B)"; below
// 1 KiB as "512 B".
func Bytes(n int64) string {
	if n < 1024 && n > -1024 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%s (%s B)", Short(n), Group(n))
}

// Short prints a size in binary units with two decimals, as "7.66 MiB".
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

// Group prints a number with commas between thousands.
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
