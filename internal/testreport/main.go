// Command testreport reads what "go test -json" prints and shows what go test would
// without -json: a line for each package, and all that a test that failed has printed.
// At the end it lists, by reason, the tests that were skipped: a run without the test
// data must not look like a whole one.
//
// Its exit status is 1 where a test failed.
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

// report copies what matters of a stream of events and says whether all tests passed.
func report(in io.Reader, out io.Writer) (passed bool) {
	type key struct{ pkg, test string }
	printed := map[key][]string{} // what each test has printed so far
	skipped := map[string][]string{}
	passed = true
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Action == "" {
			fmt.Fprintln(out, lines.Text()) // of the go command itself
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
		case "build-fail":
			passed = false
		case "fail":
			passed = false
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

// place is what go test puts before the text of a skip.
var place = regexp.MustCompile(`^\s+\w+_test\.go:\d+: `)

// reason is why a test says that it is skipped.
func reason(printed []string) string {
	for _, line := range slices.Backward(printed) {
		if at := place.FindString(line); at != "" {
			return strings.TrimSpace(line[len(at):])
		}
	}
	return "no reason given"
}

// shortened is a list of names, or of its first.
func shortened(names []string) string {
	const most = 6
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + ", ..."
}
