package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
)

// peaks returns the peak of the best order without slices and recomputation, and that of the plan
// without a limit, of which limits in per cent are. Slices of the loss are in both: the costs of limits
// count from the graph with them.
func peaks(p *plan.Plan) (plain, unlimited int64) {
	unlimited = p.Unlimited()
	if l := p.Summary.Limited; l != nil && (p.Summary.Unsliced == nil || p.Slices != nil && p.Slices.Mode == plan.SlicesOfLoss) {
		return l.PlainPeakBytes, unlimited
	}
	return unlimited, unlimited
}

// Frontier prints the cost of limits: a line for each point of the plan's frontier. If
// the plan was made with slices, the line also has the cost of each means alone.
func Frontier(w io.Writer, p *plan.Plan) {
	plain, peak := peaks(p)
	if slices.ContainsFunc(p.Frontier, func(x plan.FrontierPoint) bool { return x.Alone != nil }) {
		frontierOfMeans(w, p, peak)
		return
	}
	fmt.Fprintf(w, "%-34s %9s %12s %15s\n", "limit", "of peak", "extra time", "no plan below")
	fmt.Fprintf(w, "%-34s %7.1f %% %10.2f %% %13.2f %%\n", units.Bytes(plain), percentOf(plain, peak), 0.0, 0.0)
	for _, x := range p.Frontier {
		fmt.Fprintf(w, "%-34s %7.1f %% %s\n", units.Bytes(x.LimitBytes), percentOf(x.LimitBytes, peak), costOf(x))
	}
}

// frontierOfMeans prints the cost of limits by each means alone and by all. Means that
// were not asked for have no column.
func frontierOfMeans(w io.Writer, p *plan.Plan, peak int64) {
	columns := []struct {
		name string
		of   func(plan.FrontierPoint) *float64
	}{
		{"slices alone", func(x plan.FrontierPoint) *float64 { return x.Alone.Slices }},
		{"run again", func(x plan.FrontierPoint) *float64 { return x.Alone.Recompute }},
		{"swapped", func(x plan.FrontierPoint) *float64 { return x.Alone.Swap }},
	}
	used := columns[:0]
	for i, c := range columns {
		if i == 0 || slices.ContainsFunc(p.Frontier, func(x plan.FrontierPoint) bool { return x.Alone != nil && c.of(x) != nil }) {
			used = append(used, c)
		}
	}
	fmt.Fprintf(w, "%-34s %9s", "limit", "of peak")
	for _, c := range used {
		fmt.Fprintf(w, " %12s", c.name)
	}
	fmt.Fprintf(w, " %12s\n", "all together")
	for _, x := range p.Frontier {
		fmt.Fprintf(w, "%-34s %7.1f %%", units.Bytes(x.LimitBytes), percentOf(x.LimitBytes, peak))
		for _, c := range used {
			text := ""
			if x.Alone != nil {
				text = "none found"
				if cost := c.of(x); cost != nil {
					text = fmt.Sprintf("%.2f %%", *cost)
				}
			}
			fmt.Fprintf(w, " %12s", text)
		}
		fmt.Fprintf(w, " %s\n", costOf(x))
	}
}

// costOf returns the extra time at a limit, and the lower bound on it.
func costOf(x plan.FrontierPoint) string {
	extra, bound := "none found", ""
	if x.ExtraCostPercent != nil {
		extra = fmt.Sprintf("%.2f %%", *x.ExtraCostPercent)
	}
	if x.ExtraCostBound != nil {
		bound = fmt.Sprintf("%.2f %%", *x.ExtraCostBound)
	}
	if x.Impossible {
		extra, bound = "impossible", ""
	}
	return strings.TrimRight(fmt.Sprintf("%12s %15s", extra, bound), " ")
}

// The curve of a frontier in pixels.
const frontierTop, frontierTall = 56, 240

// FrontierPicture draws a plan's frontier as SVG. The x-axis has the limits, from the
// best order's peak down, in per cent of the peak without a limit; the y-axis has the extra time of the plans found and its
// lower bound. The colours follow the viewer's light or dark scheme.
func FrontierPicture(w io.Writer, p *plan.Plan) error {
	_, err := io.WriteString(w, frontierPicture(p, frontierPaper))
	return err
}

// frontierStyle applies only to the picture, because the picture is also part of the
// page, whose colours it then takes.
const frontierStyle = `<style>
.frontier{color:var(--fg,#17212b);font:12px system-ui,sans-serif}
.frontier text{fill:currentColor}.frontier .title{font-size:15px;font-weight:600}.frontier .small{opacity:.7}
.frontier .line{stroke:currentColor;stroke-opacity:.14}
.frontier .plans{stroke:var(--planned,#1f6feb);fill:none;stroke-width:1.8}.frontier .here{fill:var(--planned,#1f6feb)}
.frontier .bound{stroke:var(--bound,#c0261c);fill:none;stroke-dasharray:6 4;stroke-width:1.2}
</style>
`

// frontierPaper is the background of the picture in a file of its own.
const frontierPaper = `<style>.paper{fill:#fff}
@media (prefers-color-scheme:dark){.paper{fill:#0d1117}.frontier{--fg:#e3eaf0;--planned:#58a6ff;--bound:#ff7b72}}
</style>
<rect class="paper" width="100%" height="100%"/>
`

// frontierPicture returns the picture as text, on the given background, or "" if the
// plan has no frontier.
func frontierPicture(p *plan.Plan, paper string) string {
	if len(p.Frontier) == 0 {
		return ""
	}
	plain, peak := peaks(p)
	most := 1.0
	for _, x := range p.Frontier {
		for _, v := range []*float64{x.ExtraCostPercent, x.ExtraCostBound} {
			if v != nil {
				most = max(most, *v)
			}
		}
	}
	highest, lowest := percentOf(plain, peak), percentOf(p.Frontier[len(p.Frontier)-1].LimitBytes, peak)
	at := func(limit int64) float64 {
		return left + plotWidth*(highest-percentOf(limit, peak))/max(highest-lowest, 1)
	}
	up := func(extra float64) float64 { return frontierTop + frontierTall*(1-extra/(1.08*most)) }
	var out strings.Builder
	const width, height = left + plotWidth + right, frontierTop + frontierTall + 44
	title := Title(p) + ": what a limit costs"
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" class="frontier" viewBox="0 0 %d %d" role="img">`+"\n", width, height)
	fmt.Fprintf(&out, "<title>%s</title>\n%s%s", escape(title), frontierStyle, paper)
	fmt.Fprintf(&out, `<text class="title" x="%d" y="24">%s</text>`+"\n", left, escape(title+", peak "+units.Short(peak)))
	for i, key := range []struct{ class, text string }{{"plans", "extra time of the plans"}, {"bound", "no plan costs less"}} {
		x := left + 240*i
		fmt.Fprintf(&out, `<path class="%s" d="M%d 40h18"/><text x="%d" y="44">%s</text>`+"\n", key.class, x, x+24, key.text)
	}
	for _, v := range round(1.08*most, 10) {
		fmt.Fprintf(&out, `<path class="line" d="M%d %.1fh%d"/><text x="%d" y="%.1f" text-anchor="end">%g %%</text>`+"\n", left, up(v), plotWidth, left-6, up(v)+4, v)
	}
	for percent := math.Floor(highest/10+1e-9) * 10; percent >= lowest-1e-9; percent -= 10 {
		x := at(int64(math.Round(percent / 100 * float64(peak))))
		fmt.Fprintf(&out, `<path class="line" d="M%.1f %dv%d"/><text x="%.1f" y="%d" text-anchor="middle">%.0f %%</text>`+"\n", x, frontierTop, frontierTall, x, frontierTop+frontierTall+16, percent)
	}
	fmt.Fprintf(&out, `<text class="small" x="%d" y="%d">limit, of the peak without</text>`+"\n", left, height-8)
	plans, bound := fmt.Sprintf("M%d %.1f", left, up(0)), fmt.Sprintf("M%d %.1f", left, up(0))
	for _, x := range p.Frontier {
		if x.ExtraCostPercent != nil {
			plans += fmt.Sprintf("L%.1f %.1f", at(x.LimitBytes), up(*x.ExtraCostPercent))
		}
		if x.ExtraCostBound != nil {
			bound += fmt.Sprintf("L%.1f %.1f", at(x.LimitBytes), up(*x.ExtraCostBound))
		}
		if x.Impossible {
			fmt.Fprintf(&out, `<text class="small" x="%.1f" y="%d" text-anchor="end">impossible at %.0f %%</text>`+"\n", at(x.LimitBytes), frontierTop+14, percentOf(x.LimitBytes, peak))
		}
	}
	fmt.Fprintf(&out, `<path class="plans" d="%s"/>`+"\n"+`<path class="bound" d="%s"/>`+"\n", plans, bound)
	if l := p.Summary.Limited; l != nil && l.LimitBytes < plain {
		fmt.Fprintf(&out, `<circle class="here" cx="%.1f" cy="%.1f" r="4"/>`+"\n", at(l.LimitBytes), up(min(p.Summary.Extra(), 1.08*most)))
	}
	out.WriteString("</svg>\n")
	return out.String()
}
