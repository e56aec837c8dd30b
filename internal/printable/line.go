package printable

import (
	"strings"
	"unicode/utf8"
)

// longest bounds the characters of a [Line].
const longest = 2000

// Line is a message fit for one line of a terminal or of a log, whatever names stand
// in it: with escapes, no word of more than 200 characters, and no more than 2,000
// characters in all. What is too long is cut in the middle.
func Line(s string) string {
	if len(s) <= most && isPrintable(s) {
		return s
	}
	if len(s) > 4*longest { // no escape makes less of a byte than a quarter of a character
		s = s[:2*longest] + "…" + s[len(s)-2*longest:]
	}
	words := strings.Split(s, " ")
	for i, w := range words {
		words[i] = Text(w)
	}
	return cut(strings.Join(words, " "), longest)
}

// Cut is s without its middle, where a "…" stands, if it has more than 200
// characters. It is for texts that are quoted afterwards, which makes escapes.
func Cut(s string) string { return cut(s, most) }

func cut(s string, most int) string {
	if len(s) <= most || utf8.RuneCountInString(s) <= most {
		return s
	}
	front, back := 0, len(s)
	for range most - most/2 - 1 {
		_, n := utf8.DecodeRuneInString(s[front:])
		front += n
	}
	for range most / 2 {
		_, n := utf8.DecodeLastRuneInString(s[:back])
		back -= n
	}
	return s[:front] + "…" + s[back:]
}
