// Package cell protects names in CSV cells: a spreadsheet evaluates a cell that
// begins with =, +, - or @, even in quotes. A model's author chooses such names,
// and its user opens the table.
package cell

import (
	"regexp"
	"strings"
)

// Text returns s as a cell that is shown literally: with an apostrophe before a
// text that would be a formula, or that begins with a tab or a line end, after
// which spreadsheets look for one. Numbers are unchanged. [Name] removes the
// apostrophe.
func Text(s string) string {
	if isFormula(s) {
		return "'" + s
	}
	return s
}

// Name reverses Text: Name(Text(s)) is s for every s. Other cells are unchanged.
func Name(cell string) string {
	if rest, ok := strings.CutPrefix(cell, "'"); ok && isFormula(rest) {
		return rest
	}
	return cell
}

// number matches text that a spreadsheet shows as a number.
var number = regexp.MustCompile(`^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$`)

// isFormula reports whether a cell needs an apostrophe, or begins with one that
// Name would remove.
func isFormula(s string) bool {
	s = strings.TrimLeft(s, "'")
	// The last four have East Asian width; some spreadsheets accept them as well.
	return strings.IndexAny(s, "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20") == 0 && !number.MatchString(s)
}
