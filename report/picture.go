package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
)

// Sizes of the pictures in pixels: one above the other, over the same steps.
const (
	curveTop, curveTall = 56, 190
	mapTop, mapTall     = 318, 340
)

// hues are the colours of the kinds of buffers, as in the page: hue and
// saturation.
var hues = []struct{ kind, hue string }{
	{plan.KindInput, "172 45%"},
	{plan.KindOutput, "130 38%"},
	{plan.KindActivation, "212 62%"},
	{plan.KindGradient, "28 80%"},
	{plan.KindWorkspace, "268 48%"},
	{plan.KindParameter, "48 60%"},
	{plan.KindState, "330 50%"},
	{plan.KindCache, "300 45%"},
	{plan.KindConstant, "210 10%"},
}

// Pictures draws a plan as one SVG. It shows the load over the steps in program order and in
// planned order with the lower bound, and below it the place of each buffer of the arena. p
// must be consistent (plan.Check). The viewer chooses a light or dark style. Of more than
// 50,000 buffers, the picture shows the largest.
func Pictures(w io.Writer, p *plan.Plan) error {
	var out strings.Builder
	const width, height = left + plotWidth + right, mapTop + mapTall + bottom
	title := fmt.Sprintf("%s: %s in the arena, %s nodes", Title(p), units.Short(p.Summary.ArenaBytes), units.Group(int64(p.Summary.Nodes)))
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">`+"\n", width, height)
	fmt.Fprintf(&out, "<title>%s</title>\n%s", escape(title), pictureStyle())
	fmt.Fprintf(&out, `<rect class="paper" width="%d" height="%d"/>`+"\n", width, height)
	fmt.Fprintf(&out, `<text class="title" x="%d" y="24">%s</text>`+"\n", left, escape(title))
	drawLoads(&out, p)
	drawArena(&out, p)
	out.WriteString("</svg>\n")
	_, err := io.WriteString(w, out.String())
	return err
}

func pictureStyle() string {
	var b strings.Builder
	b.WriteString(`<style>
svg{color:#17212b;font:12px system-ui,sans-serif}.paper{fill:#fff}
text{fill:currentColor}.title{font-size:15px;font-weight:600}.note{opacity:.7}
.n text{font-size:10px;fill:#10202e}.b rect{stroke:#fff;stroke-width:.6}.b .t{stroke:none}
.grid{stroke:currentColor;stroke-opacity:.14}
.planned{stroke:#1f6feb;fill:#1f6feb;fill-opacity:.13;stroke-width:1.6}.program{stroke:#c2690c;fill:none;stroke-width:1.2}
.mark{stroke:#c0261c;stroke-dasharray:6 4;stroke-width:1.2}
`)
	for _, h := range hues {
		for shade, lightness := range []int{64, 69, 74} {
			fmt.Fprintf(&b, ".%s%d{fill:hsl(%s %d%%)}", h.kind[:3], shade, h.hue, lightness)
		}
		b.WriteByte('\n')
	}
	b.WriteString(`@media (prefers-color-scheme:dark){svg{color:#e3eaf0}.paper{fill:#0d1117}.b rect{stroke:#0d1117}.b{opacity:.82}
.planned{stroke:#58a6ff;fill:#58a6ff}.program{stroke:#f0a04b}.mark{stroke:#ff7b72}}
</style>
`)
	return b.String()
}

// class is the style of a kind in one of three shades, so that neighbours differ.
func class(kind string, i int) string { return fmt.Sprintf("%s%d", kind[:3], i%3) }

// drawLoads draws the curves and the bound.
func drawLoads(out *strings.Builder, p *plan.Plan) {
	planned := make([]int64, len(p.Steps))
	for i := range p.Steps {
		planned[i] = p.Steps[i].LoadBytes
	}
	program := p.ProgramOrder.LoadBytes
	s := scale{steps: float64(max(1, len(planned))), top: curveTop, tall: curveTall}
	s.lastStep = int(s.steps) - 1
	s.height = 1.08 * float64(max(1, p.Summary.PeakBytes, p.Summary.ProgramPeakBytes))
	key := func(x int, class, text string) {
		fmt.Fprintf(out, `<path class="%s" d="M%d 40h18"/><text x="%d" y="44">%s</text>`+"\n", class, x, x+24, text)
	}
	key(left, "program", "program order, peak "+units.Short(p.Summary.ProgramPeakBytes))
	key(left+270, "planned", "planned order, peak "+units.Short(p.Summary.PeakBytes))
	key(left+540, "mark", "lower bound "+units.Short(p.Summary.LowerBoundBytes))
	s.byteAxis(out, round(s.height, 2))
	if len(planned) > 0 {
		fmt.Fprintf(out, `<path class="planned" d="%sV%.0f"/>`+"\n", s.curve(envelope(planned)), s.y(0))
	}
	if len(program) > 0 {
		fmt.Fprintf(out, `<path class="program" d="%s"/>`+"\n", s.curve(envelope(program)))
	}
	fmt.Fprintf(out, `<path class="mark" d="M%d %.2fh%d"/>`+"\n", left, s.y(float64(p.Summary.LowerBoundBytes)), plotWidth)
}

// drawArena draws the buffers of the arena by their kinds.
func drawArena(out *strings.Builder, p *plan.Plan) {
	var rects []Rect
	kinds := map[string]bool{}
	for i := range p.Buffers {
		if b := &p.Buffers[i]; b.Pool == plan.Arena && b.Bytes > 0 {
			rects = append(rects, Rect{Name: bufferName(p, b), Offset: b.Offset, Bytes: b.Bytes, First: b.First, Last: b.Last, class: class(b.Kind, i)})
			kinds[b.Kind] = true
		}
	}
	s := scale{steps: float64(max(1, len(p.Steps))), height: float64(max(1, p.Summary.ArenaBytes)), top: mapTop, tall: mapTall}
	s.lastStep = int(s.steps) - 1
	x := left
	for _, h := range hues {
		if kinds[h.kind] {
			fmt.Fprintf(out, `<rect class="%s" x="%d" y="%d" width="14" height="10"/><text x="%d" y="%d">%s</text>`+"\n",
				class(h.kind, 1), x, mapTop-23, x+20, mapTop-14, h.kind)
			x += 110
		}
	}
	s.byteAxis(out, round(s.height, 2))
	s.stepAxis(out, round(s.steps-1, 10))
	drawn := s.largest(rects, mostDrawn)
	s.rects(out, drawn)
	s.names(out, drawn)
	if len(drawn) < len(rects) {
		fmt.Fprintf(out, `<text class="note" x="%d" y="%d" text-anchor="end">the %s largest</text>`+"\n", left+plotWidth, mapTop-14, units.Group(int64(len(drawn))))
	}
}

// envelope reduces a load to at most one column per pixel: if there are more
// steps, a column has their largest load.
func envelope(load []int64) []int64 {
	columns := make([]int64, min(len(load), plotWidth))
	for c := range columns {
		columns[c] = slices.Max(load[c*len(load)/len(columns) : (c+1)*len(load)/len(columns)])
	}
	return columns
}

// round returns four to nine round numbers from 0 to most: multiples of a power
// of the base, or of 2 or 5 times one.
func round(most, base float64) []float64 {
	unit := 1.0
	for _, factor := range []float64{1, 2, 5} {
		for u := factor; u <= most/4; u *= base {
			unit = max(unit, u)
		}
		if base == 2 {
			break
		}
	}
	var list []float64
	for n := 0.0; n <= most; n += unit {
		list = append(list, n)
	}
	return list
}
