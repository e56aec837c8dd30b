package graph

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// standardDomain is the long name of domain "".
const standardDomain = "ai.onnx"

// statements are the words that begin statements other than nodes.
var statements = map[string]bool{
	"ir": true, "producer": true, "opset": true, "meta": true, "graph": true, "function": true,
	"in": true, "init": true, "out": true, "attr": true,
}

// quoted is a name as the printed form has it: bare, or in the quotes of Go.
func quoted(name string) string {
	if bare(name) {
		return name
	}
	return strconv.Quote(name)
}

// bare reports whether a name needs no quotes.
func bare(name string) bool {
	if name == "" || statements[name] || name == ":" || name == "_" || name == "..." || strings.Contains(name, "//") {
		return false
	}
	for i, r := range name {
		if !wordRune(r) || r == utf8.RuneError && !strings.HasPrefix(name[i:], "\ufffd") {
			return false
		}
	}
	return true
}

// wordRune reports whether r may stand in a word. The slash is one, since PyTorch's names
// are paths; two of them begin a comment.
func wordRune(r rune) bool {
	return r == '_' || r == '.' || r == '/' || r == ':' || r == '-' || r == '+' || r == '*' || r == '?' || r == '$' || r == '%' ||
		unicode.IsLetter(r) || unicode.IsDigit(r)
}

// SyntaxError is a fault in a printed form and its place.
type SyntaxError struct {
	Line, Column int // from 1; columns are counted in bytes
	Err          error
}

// Error prints the place and the fault.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %v", e.Line, e.Column, e.Err)
}

// Unwrap returns the fault without its place.
func (e *SyntaxError) Unwrap() error { return e.Err }

// token is a word, a string, a punctuation mark, the end of a line ('\n') or of the text (0).
type token struct {
	kind byte   // 'w', 's', '\n', 0, or the mark itself
	text string // of a word, or the value of a string
	at   int
}

// String describes a token for messages.
func (t token) String() string {
	switch t.kind {
	case 0:
		return "the end of the text"
	case '\n':
		return "the end of the line"
	case 'w', 's':
		return strconv.Quote(Short(t.text))
	}
	return strconv.Quote(string(t.kind))
}

// lexer splits a printed form into tokens.
type lexer struct {
	text string
	at   int
}

// fail returns an error about a place in the text.
func (l *lexer) fail(at int, format string, args ...any) error {
	before := l.text[:at]
	line := strings.LastIndexByte(before, '\n') + 1
	return &SyntaxError{Line: 1 + strings.Count(before, "\n"), Column: 1 + at - line, Err: fmt.Errorf(format, args...)}
}

// next returns the next token. Semicolons end lines.
func (l *lexer) next() (token, error) {
	for l.at < len(l.text) && strings.IndexByte(" \t\r", l.text[l.at]) >= 0 {
		l.at++
	}
	if strings.HasPrefix(l.text[l.at:], "//") {
		if end := strings.IndexByte(l.text[l.at:], '\n'); end >= 0 {
			l.at += end
		} else {
			l.at = len(l.text)
		}
	}
	at := l.at
	if at == len(l.text) {
		return token{at: at}, nil
	}
	switch c := l.text[at]; c {
	case '\n', ';':
		l.at++
		return token{kind: '\n', at: at}, nil
	case '=', '(', ')', '[', ']', '{', '}', ',', '@', '#', '|', '<':
		l.at++
		return token{kind: c, at: at}, nil
	case '"':
		quote, err := strconv.QuotedPrefix(l.text[at:])
		if err != nil {
			return token{}, l.fail(at, "a string that does not end, or with an unknown escape: expected one as in Go")
		}
		l.at += len(quote)
		value, err := strconv.Unquote(quote)
		if err != nil {
			return token{}, l.fail(at, "a string with an unknown escape: expected one as in Go")
		}
		return token{kind: 's', text: value, at: at}, nil
	}
	for l.at < len(l.text) {
		r, size := utf8.DecodeRuneInString(l.text[l.at:])
		if r == utf8.RuneError && size == 1 || !wordRune(r) || strings.HasPrefix(l.text[l.at:], "//") {
			break
		}
		l.at += size
	}
	if l.at == at {
		_, size := utf8.DecodeRuneInString(l.text[at:])
		return token{}, l.fail(at, "found %q: expected a name, a string or one of = ( ) [ ] { } , @ # |", l.text[at:at+size])
	}
	return token{kind: 'w', text: l.text[at:l.at], at: at}, nil
}
