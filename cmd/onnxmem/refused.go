package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/passes"
)

// issues is where faults are reported.
const issues = "https://github.com/onnxmem/onnxmem/issues"

// warnGivenUp says what a plan is without, since the plan with it was not valid, and how to
// report that.
func warnGivenUp(e *env, list []passes.GivenUp) {
	for _, g := range list {
		e.say("%s", g)
	}
	if len(list) > 0 {
		e.say("%s", reportText("the plan is valid, but "))
	}
}

// reportRefused reports that no plan was valid.
func reportRefused(stderr io.Writer, err error) {
	fmt.Fprintf(stderr, "onnxmem: %s\nonnxmem: %s\n", units.OneLine(err), reportText("nothing is written; "))
}

// reportText asks for a report, and says what it needs: the line before and this one, which
// has the command line. The model need not be in it.
func reportText(before string) string {
	return fmt.Sprintf("%sthis is a fault of onnxmem: please report it with the line above, this one and, if you may, the model at %s (%s: %s)",
		before, issues, tool(), commandText(os.Args[1:]))
}

// plainWord needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// commandText is a command line in the form of a shell.
func commandText(args []string) string {
	words := []string{"onnxmem"}
	for _, a := range args {
		if !plainWord.MatchString(a) {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}
