// Package pairs reads the entries NAME=NAME of the metadata of training graphs.
package pairs

import (
	"fmt"

	"github.com/onnxmem/onnxmem/internal/printable"
)

// Split splits an entry at the "=" that has a name of the first kind on its left and one
// of the second kind on its right. Names may contain "=", so there may be several; Split
// fails unless exactly one is right.
func Split(text string, isFirst, isSecond func(name string) bool) (first, second string, err error) {
	found := false
	for at, c := range text {
		if c != '=' || !isFirst(text[:at]) || !isSecond(text[at+1:]) {
			continue
		}
		if found {
			return "", "", fmt.Errorf("%q is ambiguous: %q=%q or %q=%q", printable.Cut(text),
				printable.Cut(first), printable.Cut(second), printable.Cut(text[:at]), printable.Cut(text[at+1:]))
		}
		first, second, found = text[:at], text[at+1:], true
	}
	if !found {
		return "", "", fmt.Errorf("%q", printable.Cut(text))
	}
	return first, second, nil
}
