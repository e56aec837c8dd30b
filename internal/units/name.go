package units

import (
	"errors"
	"strings"

	"github.com/onnxmem/onnxmem/internal/printable"
)

// Name prints a name from a file without quotes: what would break the line or steer
// a terminal escaped, and no more than 200 characters of it.
func Name(s string) string { return printable.Text(s) }

// OneLine keeps a message on one line of a terminal, whatever names stand in it.
// Where several errors were joined, it has them all.
func OneLine(err error) string {
	text := err.Error()
	if joins(err) {
		text = strings.ReplaceAll(text, "\n", "; ")
	}
	return printable.Line(text)
}

// joins reports whether an error is made of several.
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
