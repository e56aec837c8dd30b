// Command testreport reads the output of "go test -json" and prints what go test
// prints without -json: a line for each package, and the output of failed tests. At
// the end it lists the skipped tests by reason, so that a run without the test data
// does not look complete.
//
// Its exit status is 1 if a test failed.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// event is a line of test2json; see "go doc test2json".
type event struct {
	Action, Package, Test, Output string
}

func main() {
	if !report(os.Stdin, os.Stdout) {
		os.Exit(1)
	}
}

// key names a test, or a package where test is empty.
type key struct{ pkg, test string }

// mostLines is how much is printed of a test that has not ended: the reason, the tests
// that ran, and the head of the first goroutines.
const mostLines = 80

// unended lists the tests of the package that have begun and not ended, by name.
func unended(printed map[key][]string, pkg string) []key {
	var list []key
	for k := range printed {
		if k.pkg == pkg && k.test != "" {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(a, b key) int { return strings.Compare(a.test, b.test) })
	return list
}

// report prints the important parts of a stream of events and reports whether all
// tests passed.
func report(in io.Reader, out io.Writer) (passed bool) {
	printed := map[key][]string{} // what each test has printed so far
	skipped := map[string][]string{}
	passed = true
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Action == "" {
			fmt.Fprintln(out, lines.Text()) // a line of the go command itself
			continue
		}
		k := key{e.Package, e.Test}
		switch e.Action {
		case "output", "build-output":
			if e.Action == "build-output" {
				fmt.Fprint(out, e.Output)
				continue
			}
			if e.Test == "" && strings.HasPrefix(e.Output, "ok  \t") {
				fmt.Fprint(out, e.Output)
			}
			printed[k] = append(printed[k], e.Output)
			continue
		case "pass":
		case "build-fail":
			passed = false
		case "fail":
			passed = false
			if e.Test == "" {
				// A package that ends in the middle of a test (out of time, a panic, a
				// signal) has no event for that test, whose output says why.
				for _, other := range unended(printed, e.Package) {
					list := printed[other]
					fmt.Fprintf(out, "--- UNENDED: %s\n", other.test)
					for _, line := range list[:min(len(list), mostLines)] {
						fmt.Fprint(out, line)
					}
					if more := len(list) - mostLines; more > 0 {
						fmt.Fprintf(out, "... (%d lines more)\n", more)
					}
					delete(printed, other)
				}
			}
			for _, line := range printed[k] {
				fmt.Fprint(out, line)
			}
		case "skip":
			if e.Test != "" {
				why := reason(printed[k])
				skipped[why] = append(skipped[why], e.Test)
			}
		default:
			continue
		}
		delete(printed, k)
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(out, "testreport:", err)
		return false
	}
	for _, why := range slices.Sorted(maps.Keys(skipped)) {
		list := skipped[why]
		fmt.Fprintf(out, "skipped: %s (%d): %s\n", why, len(list), shortened(list))
	}
	return passed
}

// place matches the prefix that go test adds to the text of a skip.
var place = regexp.MustCompile(`^\s+\w+_test\.go:\d+: `)

// reason returns the text of a test's call of Skip.
func reason(printed []string) string {
	for _, line := range slices.Backward(printed) {
		if at := place.FindString(line); at != "" {
			return strings.TrimSpace(line[len(at):])
		}
	}
	return "no reason given"
}

// shortened joins the names, or the first six if there are more.
func shortened(names []string) string {
	const most = 6
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + ", ..."
}
