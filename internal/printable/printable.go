// Package printable makes names and paths from models and disks fit for a
// terminal: they may hold what moves its cursor, changes its colours, reverses
// the direction of writing or fills its screen.
package printable

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// most is the number of characters that [Text] keeps, the mark of the cut
// included. It keeps more than half of them from the end: that is where paths,
// and names of exported nodes, differ.
const (
	most = 200
	tail = most / 2
	head = most - tail - 1
)

// Text is s with escapes, as of [Escape], and cut in the middle, where a "…"
// stands, if it would have more than 200 characters. No escape is cut.
func Text(s string) string {
	if len(s) <= most && isPrintable(s) {
		return s
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
	// What follows needs more room than is left only if it has more than tail+1
	// characters, and every byte of valid text makes at least a quarter of one.
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

// Escape is s with what is not printable escaped as in Go's strings, such as \n,
// \x1b or \u202e, on one line then; bytes that are not UTF-8 are \xff. Quotes and
// backslashes stay as they are, so that paths can be copied and a text that was
// escaped before stays the same.
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

// isPrintable reports whether Escape changes nothing.
func isPrintable(s string) bool {
	for i, r := range s {
		if !strconv.IsPrint(r) || r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd") {
			return false
		}
	}
	return true
}

// first is the first character of s, which is not empty, as it is shown, and how
// many bytes it takes in s.
func first(s string) (string, int) {
	r, n := utf8.DecodeRuneInString(s)
	return shown(s[:n], r), n
}

// last is first for the last character.
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
