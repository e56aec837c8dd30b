package printable

import (
	"strings"
	"unicode/utf8"
)

// longest is the maximum number of characters of a [Line].
const longest = 2000

// Line makes a message fit on one line of a terminal or log, whatever names it contains. It
// escapes characters that are not printable. It shortens words to 200 characters and the
// whole to 2,000 by cutting out their middles.
func Line(s string) string {
	if len(s) <= most && isPrintable(s) {
		return s
	}
	if full.Load() {
		return Escape(s)
	}
	if len(s) > 4*longest { // each byte yields at least a quarter of a character
		s = s[:2*longest] + "…" + s[len(s)-2*longest:]
	}
	words := strings.Split(s, " ")
	for i, w := range words {
		words[i] = Text(w)
	}
	return cut(strings.Join(words, " "), longest)
}

// Cut shortens s to 200 characters by replacing its middle by "…". It is meant for
// texts that are quoted later: quoting escapes them.
func Cut(s string) string {
	if full.Load() {
		return s
	}
	return CutAlways(s)
}

// CutAlways is Cut for data, which must not depend on [ShowFull].
func CutAlways(s string) string { return cut(s, most) }

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
