package ops_test

import (
	"fmt"
	"go/ast"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/ops"
)

// listing is a section of a page whose tables have operators in rows: those of a row have one
// rule.
type listing struct {
	page, section string                                 // section: its title; "": the whole page
	second        bool                                   // operators stand in the second column, always
	rule          func(domain string, op *ops.Op) string // the name of the operator's rule; "": it has none
}

// listings are the sections that -update keeps complete. Tests of packages docs and rowmap
// hold that they have each operator, and no other.
func listings(t *testing.T) []listing {
	maps := rulesOfCalls(t, "../plan/verify/internal/rowmap", "register")
	return []listing{
		{page: "../docs/formats/rows.md", rule: func(domain string, op *ops.Op) string { return maps[qualified(domain, op.Name)] }},
		{page: "../docs/formats/sharing.md", section: "Views", rule: func(_ string, op *ops.Op) string { return functionName(op.Views) }},
		{page: "../docs/formats/sharing.md", section: "In-place results", rule: func(_ string, op *ops.Op) string { return functionName(op.Inplace) }},
		{page: "../docs/formats/sharing.md", section: "Parts", rule: func(_ string, op *ops.Op) string { return functionName(op.Ranges) }},
		{page: "../docs/formats/onnxruntime.md", second: true, rule: sharedByRuntime},
	}
}

// sharedByRuntime is what ONNX Runtime's kernel shares, with one of the two runtimes or both.
func sharedByRuntime(domain string, op *ops.Op) string {
	row := ops.LookupRuntime(ops.ONNXRuntimeArena).Row(domain, op.Name)
	if row == nil {
		return ""
	}
	return fmt.Sprint(ops.LookupRuntime(ops.ONNXRuntime).Row(domain, op.Name) != nil, row.Views, row.Inplace)
}

// functionName is the name of a function; "" if it is nil.
func functionName(f any) string {
	v := reflect.ValueOf(f)
	if v.IsNil() {
		return ""
	}
	return runtime.FuncForPC(v.Pointer()).Name()
}

// rulesOfCalls maps the strings among the arguments of calls of a function to their first
// argument.
func rulesOfCalls(t *testing.T, dir, function string) map[string]string {
	list := map[string]string{}
	parsed(t, dir+"/*.go", func(_ string, n ast.Node) bool {
		if call, is := n.(*ast.CallExpr); is && identifier(call.Fun) == function {
			for _, e := range call.Args[1:] {
				if name, is := text(e); is {
					list[name] = fmt.Sprint(call.Args[0])
				}
			}
		}
		return true
	})
	return list
}

// complete adds each operator that the section lacks to the row of others like it.
func (l listing) complete(t *testing.T, a *aspects) {
	t.Helper()
	page := read(t, l.page)
	before, body, after := "", page, ""
	if l.section != "" {
		title := "\n## " + l.section + "\n"
		at := strings.Index(page, title) + len(title)
		end := at + strings.Index(page[at:]+"\n## ", "\n## ")
		before, body, after = page[:at], page[at:end], page[end:]
	}
	rows := strings.Split(body, "\n")
	each(func(domain string, op *ops.Op) {
		key, rule := qualified(domain, op.Name), l.rule(domain, op)
		if rule == "" || slices.ContainsFunc(rows, func(row string) bool { return slices.Contains(l.operators(row), key) }) {
			return
		}
		best := l.like(a, rows, domain, op)
		if best < 0 {
			t.Errorf("%s: no row for %s, whose rule is %s: write one", l.page, key, rule)
			return
		}
		rows[best] = l.with(rows[best], domain, op.Name)
	})
	if err := os.WriteFile(l.page, []byte(before+strings.Join(rows, "\n")+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// like is the row with the most operators of an operator's domain and rule; those of its family
// count first. It is -1 if there is none.
func (l listing) like(a *aspects, rows []string, domain string, op *ops.Op) int {
	best, most := -1, [2]int{}
	for i, row := range rows {
		same := [2]int{} // of the family, all
		for _, other := range l.operators(row) {
			d, name := "", other
			if k := strings.LastIndexByte(other, '.'); k >= 0 {
				d, name = other[:k], other[k+1:]
			}
			if o := ops.Lookup(d, name); o != nil && d == domain && l.rule(d, o) == l.rule(domain, op) {
				if same[1]++; a.meaning[other] == a.meaning[qualified(domain, op.Name)] {
					same[0]++
				}
			}
		}
		if slices.Compare(same[:], most[:]) > 0 {
			best, most = i, same
		}
	}
	return best
}

// with adds an operator to a row.
func (l listing) with(row, domain, op string) string {
	cells := strings.Split(row, "|")
	names, name := l.column(cells), "`"+op+"`"
	switch {
	case domain == "" || strings.TrimSpace(cells[1]) == domain:
	case strings.Contains(row, "`"+domain+"."):
		name = "`" + domain + "." + op + "`"
	default:
		name = domain + " " + name
	}
	cells[names] = strings.TrimSuffix(cells[names], " ") + ", " + name + " "
	return strings.Join(cells, "|")
}

// column is the place of the operators among the cells of a row: the first column, or the
// second behind a domain.
func (l listing) column(cells []string) int {
	if l.second || len(cells) == 5 && !strings.Contains(cells[1], "`") {
		return 2
	}
	return 1
}

// inRow is an operator in a row: `Op`, `domain.Op` or domain `Op`.
var inRow = regexp.MustCompile("([\\w.]*) ?`([^`]+)`")

// operators lists the operators of a row of a table, with their domains.
func (l listing) operators(row string) (list []string) {
	cells := strings.Split(row, "|")
	if len(cells) < 4 {
		return nil
	}
	names, domain := l.column(cells), ""
	if names == 2 && !l.second {
		domain = strings.TrimSpace(cells[1])
	}
	for _, m := range inRow.FindAllStringSubmatch(cells[names], -1) {
		list = append(list, qualified(domain+m[1], m[2]))
	}
	return list
}
