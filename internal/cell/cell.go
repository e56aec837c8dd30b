// Package cell keeps names in the cells of a CSV from being taken for formulas: a
// spreadsheet computes what begins with =, +, - or @, and quotes do not keep it
// from that. A model's author chooses such names, its user opens the table.
package cell

import (
	"regexp"
	"strings"
)

// Text is s as a cell that is shown as it stands: with an apostrophe before what
// would be a formula, or begins with a tab or a line end, behind which spreadsheets
// find one. Numbers stay as they are. [Name] takes the apostrophe away again.
func Text(s string) string {
	if isFormula(s) {
		return "'" + s
	}
	return s
}

// Name is what a cell that Text has made stands for: Name(Text(s)) is s for every s.
// Other cells are left as they are.
func Name(cell string) string {
	if rest, ok := strings.CutPrefix(cell, "'"); ok && isFormula(rest) {
		return rest
	}
	return cell
}

// number is what a spreadsheet shows as a number.
var number = regexp.MustCompile(`^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$`)

// isFormula reports whether a cell needs an apostrophe, or already has one that
// would otherwise be taken for ours.
func isFormula(s string) bool {
	s = strings.TrimLeft(s, "'")
	// The last four are those of East Asian width, which some spreadsheets take, too.
	return strings.IndexAny(s, "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20") == 0 && !number.MatchString(s)
}
