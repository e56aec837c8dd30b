// Package printable makes names and paths safe to print on a terminal. Those of
// models and disks may contain characters that move the cursor, change colours,
// reverse the direction of writing or fill the screen.
package printable

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// most is the maximum number of characters of a [Text], with the "…". Text keeps
// more characters of the end than of the beginning, because paths and names of
// exported nodes differ at the end.
const (
	most = 200
	tail = most / 2
	head = most - tail - 1
)

// full is set if names are not shortened.
var full atomic.Bool

// ShowFull makes [Text], [Line] and [Cut] keep names of any length, or shorten them
// again. It is for a command whose user asks for that.
func ShowFull(on bool) { full.Store(on) }

// Text escapes s like [Escape] and shortens it to 200 characters by replacing its
// middle by "…". It does not split an escape.
func Text(s string) string {
	if len(s) <= most && isPrintable(s) {
		return s
	}
	if full.Load() {
		return Escape(s)
	}
	front, used, rest := "", 0, s
	for rest != "" {
		text, bytes := first(rest)
		n := utf8.RuneCountInString(text)
		if used+n > head {
			break
		}
		front, used, rest = front+text, used+n, rest[bytes:]
	}
	// If rest is longer than this, it has more than tail+1 characters, since each
	// byte yields at least a quarter of a character: then it does not fit.
	if len(rest) <= 4*(tail+1) {
		if end := Escape(rest); used+utf8.RuneCountInString(end) <= most {
			return front + end
		}
	}
	back, used := "", 0
	for {
		text, bytes := last(rest)
		n := utf8.RuneCountInString(text)
		if used+n > tail {
			return front + "…" + back
		}
		back, used, rest = text+back, used+n, rest[:len(rest)-bytes]
	}
}

// Escape escapes the characters of s that are not printable as Go string literals
// do (\n, \x1b, \u202e), and bytes that are not UTF-8 as \xff. The result is one
// line. Quotes and backslashes are not escaped, so that paths can be copied and a
// text that is already escaped does not change.
func Escape(s string) string {
	if isPrintable(s) {
		return s
	}
	var b strings.Builder
	for s != "" {
		text, bytes := first(s)
		b.WriteString(text)
		s = s[bytes:]
	}
	return b.String()
}

// isPrintable reports whether Escape leaves s unchanged.
func isPrintable(s string) bool {
	for i, r := range s {
		if !strconv.IsPrint(r) || r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd") {
			return false
		}
	}
	return true
}

// first returns the first character of s, escaped, and its length in s in bytes. s
// must not be empty.
func first(s string) (string, int) {
	r, n := utf8.DecodeRuneInString(s)
	return shown(s[:n], r), n
}

// last does for the last character what first does for the first.
func last(s string) (string, int) {
	r, n := utf8.DecodeLastRuneInString(s)
	return shown(s[len(s)-n:], r), n
}

func shown(s string, r rune) string {
	switch {
	case r == utf8.RuneError && len(s) == 1:
		return fmt.Sprintf(`\x%02x`, s[0])
	case strconv.IsPrint(r):
		return s
	}
	q := strconv.QuoteRune(r)
	return q[1 : len(q)-1]
}
