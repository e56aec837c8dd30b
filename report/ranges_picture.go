package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
)

// The picture of one dimension of the ranges, in pixels.
const rangesTop, rangesTall, rangesBelow = 52, 180, 56

// rangesStyle takes the colours of the page around it.
const rangesStyle = `<style>
.ranges{color:var(--fg,#17212b);font:12px system-ui,sans-serif}
.ranges text{fill:currentColor}.ranges .title{font-size:15px;font-weight:600}.ranges .small{opacity:.7}
.ranges .line{stroke:currentColor;stroke-opacity:.14}
.ranges .arena{stroke:var(--planned,#1f6feb);fill:none;stroke-width:1.8}.ranges .dot{fill:var(--planned,#1f6feb)}
.ranges .bound{stroke:var(--bound,#c0261c);fill:none;stroke-dasharray:6 4;stroke-width:1.2}
</style>
`

// rangesPicture draws the arena and the lower bound over each dimension of a plan for
// ranges, the other dimensions at their largest lengths: the rows of the plan's table. Both
// axes are logarithmic. It returns "" if the plan has no ranges.
func rangesPicture(p *plan.Plan) string {
	if p.Ranges == nil {
		return ""
	}
	names, _ := p.Box()
	var out strings.Builder
	const tall = rangesTop + rangesTall + rangesBelow
	const width = left + plotWidth + right
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" class="ranges" viewBox="0 0 %d %d" role="img">`+"\n", width, tall*len(names))
	fmt.Fprintf(&out, "<title>%s</title>\n%s", escape(Title(p)+": arena and lower bound over the lengths of dimensions"), rangesStyle)
	for k, name := range names {
		fmt.Fprintf(&out, `<g transform="translate(0 %d)">`+"\n", tall*k)
		rangeOf(&out, p, name)
		out.WriteString("</g>\n")
	}
	out.WriteString("</svg>\n")
	return out.String()
}

// rangeOf draws one dimension.
func rangeOf(out *strings.Builder, p *plan.Plan, name string) {
	rows := rowsOver(p, name)
	if len(rows) == 0 {
		return
	}
	low, high := rows[0].Dims[name], rows[len(rows)-1].Dims[name]
	least, most := int64(math.MaxInt64), int64(1)
	for _, r := range rows {
		least, most = min(least, r.LowerBoundBytes, r.ArenaBytes), max(most, r.ArenaBytes)
	}
	scale := func(v, from, to int64) float64 {
		if to <= from {
			return 1
		}
		log := func(n int64) float64 { return math.Log(float64(max(n, 1))) }
		return (log(v) - log(from)) / max(log(to)-log(from), 1e-9)
	}
	x := func(n int64) float64 { return left + plotWidth*scale(n, low, high) }
	y := func(b int64) float64 { return rangesTop + rangesTall*(1-scale(b, least, most)) }
	fmt.Fprintf(out, `<text class="title" x="%d" y="20">%s</text>`+"\n", left, escape(units.Name(name)))
	for i, key := range []struct{ class, text string }{{"arena", "arena"}, {"bound", "lower bound of the point"}} {
		at := left + 120*i
		fmt.Fprintf(out, `<path class="%s" d="M%d 36h18"/><text x="%d" y="40">%s</text>`+"\n", key.class, at, at+24, key.text)
	}
	for _, b := range []int64{least, most} {
		fmt.Fprintf(out, `<path class="line" d="M%d %.1fh%d"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left, y(b), plotWidth, left-6, y(b)+4, units.Short(b))
	}
	var arena, bound strings.Builder
	last := -1e9
	for i, r := range rows {
		n, letter := r.Dims[name], "L"
		if i == 0 {
			letter = "M"
		}
		fmt.Fprintf(&arena, "%s%.1f %.1f", letter, x(n), y(r.ArenaBytes))
		fmt.Fprintf(&bound, "%s%.1f %.1f", letter, x(n), y(r.LowerBoundBytes))
		fmt.Fprintf(out, `<circle class="dot" cx="%.1f" cy="%.1f" r="3"><title>%s</title></circle>`+"\n", x(n), y(r.ArenaBytes),
			escape(fmt.Sprintf("%s: arena %s, bound %s", PointName(r.Dims), units.Bytes(r.ArenaBytes), units.Bytes(r.LowerBoundBytes))))
		if x(n)-last > 28 {
			fmt.Fprintf(out, `<text class="small" x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n", x(n), rangesTop+rangesTall+18, n)
			last = x(n)
		}
	}
	fmt.Fprintf(out, `<path class="arena" d="%s"/>`+"\n"+`<path class="bound" d="%s"/>`+"\n", arena.String(), bound.String())
}

// rowsOver returns the rows of the table in which all dimensions but one have their largest
// lengths, ascending.
func rowsOver(p *plan.Plan, name string) (rows []plan.RangePoint) {
	names, lengths := p.Box()
	for _, r := range p.Ranges.Table {
		corner := true
		for k, other := range names {
			corner = corner && (other == name || r.Dims[other] == lengths[k][len(lengths[k])-1])
		}
		if corner {
			rows = append(rows, r)
		}
	}
	return rows
}

// Ranges returns the picture of the ranges, or nothing if the plan has none. All text from
// files in it is escaped.
func (v *page) Ranges() template.HTML { return template.HTML(rangesPicture(v.Plan)) }

// RangeLines returns the lines of the summary about ranges, in words.
func (v *page) RangeLines() []string {
	var b strings.Builder
	Ranges(&b, v.Plan)
	return strings.Split(strings.TrimSpace(b.String()), "\n")
}
