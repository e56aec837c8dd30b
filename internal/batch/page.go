package batch

import (
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/internal/printable"
)

// Name is the model's name for people.
func (r row) Name() string { return printable.Text(r.Model) }

// mostName is the number of characters of a name in the table: three or four lines of
// its column.
const mostName = 128

// Short is the name, without its middle if it is long: a path's beginning and its file tell
// models apart. What is left out are whole folders, unless one name fills the space.
func (r row) Short() string {
	name := []rune(r.Name())
	if len(name) <= mostName {
		return string(name)
	}
	const most = mostName / 3
	head, tail := string(name[:most]), string(name[len(name)-(mostName-1-most):])
	if i := strings.LastIndexByte(head, '/'); i > 0 {
		head = head[:i+1]
	}
	if i := strings.IndexByte(tail, '/'); i >= 0 {
		tail = tail[i:]
	}
	return head + "…" + tail
}

// Parts are the pieces of Short between which a line may end: after each slash.
func (r row) Parts() []string { return strings.SplitAfter(r.Short(), "/") }

// Planned reports whether there are figures.
func (r row) Planned() bool { return r.Result != nil }

// Ranged reports whether any plan is for ranges of dimensions: only then does the page have
// columns for their points.
func (t *Table) Ranged() bool {
	return slices.ContainsFunc(t.rows, func(r row) bool { return r.Points > 0 })
}

// Link is the URL of its report: a name may hold any bytes.
func (r row) Link() string { return (&url.URL{Path: r.Report}).String() }

// Saved is what part of the file's peak the plan saves, for the column's order.
func (r row) Saved() float64 {
	if r.ProgramPeakBytes == 0 {
		return 0
	}
	return 1 - float64(r.PeakBytes)/float64(r.ProgramPeakBytes)
}

// Rows are the models, for the page.
func (t *Table) Rows() []row { return t.rows }

// Counted is a number of models and what is said of them.
type Counted struct {
	N           int
	Text, Class string
}

// Counts says what became of the models: always how many were planned, refused and failed.
func (t *Table) Counts() []Counted {
	list := []Counted{{t.count[StatusOK], "planned", ""}}
	for _, c := range []Counted{
		{t.count[StatusRefused], "refused", StatusRefused},
		{t.count[StatusFailed], "failed", StatusFailed},
	} {
		if c.N == 0 {
			c.Class = ""
		}
		list = append(list, c)
	}
	if n := t.count[StatusTimeout]; n > 0 {
		list = append(list, Counted{n, "out of time", StatusTimeout})
	}
	if t.GivenUp > 0 {
		list = append(list, Counted{t.GivenUp, "of the planned without what was asked for", ""})
	}
	if t.Assumed > 0 {
		list = append(list, Counted{t.Assumed, "with assumed dimensions", ""})
	}
	return list
}

// String is the text of the page's head.
func (c Counted) String() string { return fmt.Sprintf("%d %s", c.N, c.Text) }

// indexPage is a table that fits into 1,400 pixels, whatever the names: figures stay on one
// line, names break after a slash, and where one has none, anywhere. A click on a head sorts; cells whose text
// is not what sorts have that in data-n, and rows without a figure stay last.
var indexPage = template.Must(template.New("index").Parse(`{{define "parts"}}{{range $i, $p := .}}{{if $i}}<wbr>{{end}}{{$p}}{{end}}{{end}}<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>onnxmem: {{.Models}} models</title>
<style>
:root{color-scheme:light dark;font:14px/1.45 system-ui,sans-serif}body{margin:1.5rem}table{border-collapse:collapse;width:100%}
th,td{padding:.25rem .45rem;text-align:right;border-bottom:1px solid #8884;vertical-align:top}td{white-space:nowrap}
th{vertical-align:bottom;position:sticky;top:0;background:Canvas}th button{all:unset;cursor:pointer;font-weight:600}th button:focus-visible{outline:2px solid}
th[aria-sort=ascending] button::after{content:" ▲"}th[aria-sort=descending] button::after{content:" ▼"}
.text{text-align:left;white-space:normal;overflow-wrap:anywhere}.model{min-width:22rem}.status{min-width:4rem}.assumed{min-width:7rem}
th.text{overflow-wrap:normal}
.failed,.refused,.time-out{color:#c0392b}
</style>
<h1>{{.Models}} models</h1>
<p>{{range $i, $c := .Counts}}{{if $i}}, {{end}}<span{{with $c.Class}} class="{{.}}"{{end}}>{{$c}}</span>{{end}}</p>
<table><thead><tr><th class="text model">model<th class="text status">status<th>nodes<th>peak, program order<th>peak<th>less<th>lower bound<th>arena<th>fragmen&shy;tation, %<th>weights<th>ms{{if .Ranged}}<th>points<th>worst ratio{{end}}<th class="text assumed">assumed</thead><tbody>
{{range .Rows}}<tr><td class="text model" title="{{.Name}}">{{if .Report}}<a href="{{.Link}}">{{template "parts" .Parts}}</a>{{else}}{{template "parts" .Parts}}{{end}}<td class="text {{.Status}}" title="{{.Why}}">{{.Status}}{{with .Without}}, without {{.}}{{end}}{{if .Planned}}<td data-n="{{.Nodes}}">{{.Nodes}}<td data-n="{{.ProgramPeakBytes}}">{{.Size .ProgramPeakBytes}}<td data-n="{{.PeakBytes}}">{{.Size .PeakBytes}}<td data-n="{{printf "%.6f" .Saved}}">{{.Less}}<td data-n="{{.LowerBoundBytes}}">{{.Size .LowerBoundBytes}}<td data-n="{{.ArenaBytes}}">{{.Size .ArenaBytes}}<td data-n="{{.Fragmentation}}">{{.Fragmentation}}<td data-n="{{.ResidentBytes}}">{{.Size .ResidentBytes}}<td data-n="{{printf "%.0f" .MS}}">{{printf "%.0f" .MS}}{{if .Points}}<td data-n="{{.Points}}">{{.Points}}<td data-n="{{.Ratio}}">{{.Ratio}}{{else if $.Ranged}}<td><td>{{end}}<td class="text">{{.Dims}}{{else}}<td class="text" colspan="{{if $.Ranged}}12{{else}}10{{end}}">{{.Message}}{{end}}
{{end}}</tbody></table>
<script>
const heads = [...document.querySelectorAll("th")], body = document.querySelector("tbody");
const textual = (k) => heads[k].classList.contains("text");
function key(row, k) {
  const cell = row.cells[k];
  if (!cell) return null;
  return textual(k) ? (k ? cell.textContent.trim() : cell.title) || null : "n" in cell.dataset ? +cell.dataset.n : null;
}
heads.forEach((th, k) => {
  const button = document.createElement("button");
  button.append(...th.childNodes);
  th.append(button);
  button.addEventListener("click", () => {
    const was = th.getAttribute("aria-sort"), down = was ? was === "ascending" : !textual(k);
    heads.forEach((h) => h.removeAttribute("aria-sort"));
    th.setAttribute("aria-sort", down ? "descending" : "ascending");
    const less = (a, b) => (textual(k) ? a.localeCompare(b, "en", { numeric: true }) : a - b);
    const rows = [...body.rows].map((row) => [row, key(row, k)]);
    rows.sort(([, a], [, b]) => (a === null || b === null ? (a === null) - (b === null) : (down ? -1 : 1) * less(a, b)));
    body.append(...rows.map(([row]) => row));
  });
});
</script></html>
`))
