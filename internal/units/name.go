package units

import (
	"errors"
	"strings"

	"github.com/onnxmem/onnxmem/internal/printable"
)

// Name returns a name from a file for printing without quotes. It escapes characters
// that would break the line or control a terminal, and shortens the name to 200
// characters.
func Name(s string) string { return printable.Text(s) }

// OneLine returns the message of an error on one line of a terminal, whatever names
// it contains. It separates joined errors by semicolons.
func OneLine(err error) string {
	text := err.Error()
	if joins(err) {
		text = strings.ReplaceAll(text, "\n", "; ")
	}
	return printable.Line(text)
}

// joins reports whether an error, or one that it wraps, joins several errors.
func joins(err error) bool {
	for err != nil {
		switch e := err.(type) {
		case interface{ Unwrap() []error }:
			list := e.Unwrap()
			if len(list) != 1 {
				return true
			}
			err = list[0]
		default:
			err = errors.Unwrap(err)
		}
	}
	return false
}
