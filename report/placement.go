package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/internal/units"
)

// Rect is a buffer in a picture, or a part of one.
type Rect struct {
	Name        string
	Offset      int64 // bytes
	Bytes       int64
	First, Last int // steps, both included

	class string // class of its colour; "": chosen by its index
}

// Line is a height that a picture marks.
type Line struct {
	Name  string
	Bytes int64
}

// Sizes of the picture in pixels: the plot and the margins around it.
const (
	plotWidth, plotHeight = 1000, 560
	left, top             = 84, 40
	right, bottom         = 16, 44
	colours               = 12
	mostDrawn             = 50_000 // rectangles; if there are more, the smallest are left out
)

// PlacementSVG draws buffers as rectangles, steps to the right and offsets
// upwards, with the load as a line over them and the given heights marked. Each
// rectangle has a tooltip with its name, size, lifetime and offset; large ones
// show their names. The viewer chooses a light or dark style. The file has some
// 150 bytes per buffer; of more than 50,000 buffers, it shows the largest, and
// says so. It takes O(n log n) time.
func PlacementSVG(w io.Writer, title string, rects []Rect, lines []Line) error {
	var out strings.Builder
	s := scaleOf(rects, lines)
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">`+"\n", left+plotWidth+right, top+plotHeight+bottom)
	fmt.Fprintf(&out, "<title>%s</title>\n%s", escape(title), placementStyle())
	fmt.Fprintf(&out, `<text class="title" x="%d" y="24">%s</text>`+"\n", left, escape(title))
	s.axes(&out)
	drawn := s.largest(rects, mostDrawn)
	s.rects(&out, drawn)
	if _, err := io.WriteString(w, out.String()); err != nil {
		return err
	}
	out.Reset()
	s.names(&out, drawn)
	s.load(&out, rects)
	s.lines(&out, lines)
	if len(rects) > mostDrawn {
		fmt.Fprintf(&out, `<text class="note" x="%d" y="24" text-anchor="end">the %s largest</text>`+"\n", left+plotWidth, units.Group(int64(len(drawn))))
	}
	out.WriteString("</svg>\n")
	_, err := io.WriteString(w, out.String())
	return err
}

// placementStyle is the style sheet: hues 150 degrees apart, so that neighbours
// in the file differ.
func placementStyle() string {
	var b strings.Builder
	b.WriteString(`<style>
svg{background:#fff;color:#1c2733;font:12px system-ui,sans-serif}
text{fill:currentColor}.title{font-size:14px;font-weight:600}.note{opacity:.7}
.b rect{stroke:#fff;stroke-width:.6;stroke-opacity:.8}.b .t{stroke:none}.b rect:hover{stroke:currentColor;stroke-opacity:1}
.n text{font-size:10px;pointer-events:none;fill:#10202e}
.grid{stroke:currentColor;stroke-opacity:.15}.load{fill:none;stroke:currentColor;stroke-width:1.2;stroke-opacity:.75}
.mark{stroke:#c0261c;stroke-dasharray:6 4;stroke-width:1.2}.marks text{fill:#c0261c}
`)
	for c := range colours {
		fmt.Fprintf(&b, ".c%d{fill:hsl(%d 58%% 68%%)}", c, c*360*5/colours%360)
	}
	b.WriteString(`
@media (prefers-color-scheme:dark){svg{background:#12181f;color:#dbe4ec}.b rect{stroke:#12181f}
.mark{stroke:#ff8a80}.marks text{fill:#ff8a80}.b{opacity:.85}}
</style>
`)
	return b.String()
}

// scale maps steps and bytes to pixels.
type scale struct {
	first, steps float64
	height       float64 // bytes
	lastStep     int
	firstStep    int
	top, tall    float64 // pixels: the top of the plot, and its height
}

func scaleOf(rects []Rect, lines []Line) scale {
	s := scale{height: 1, steps: 1, top: top, tall: plotHeight}
	for i, r := range rects {
		if i == 0 {
			s.firstStep, s.lastStep = r.First, r.Last
		}
		s.firstStep, s.lastStep = min(s.firstStep, r.First), max(s.lastStep, r.Last)
		s.height = max(s.height, float64(r.Offset)+float64(r.Bytes))
	}
	for _, l := range lines {
		s.height = max(s.height, float64(l.Bytes))
	}
	s.first = float64(s.firstStep)
	s.steps = float64(s.lastStep) - s.first + 1
	return s
}

func (s *scale) x(step float64) float64 { return left + (step-s.first)/s.steps*plotWidth }

func (s *scale) y(bytes float64) float64 { return s.top + (1-bytes/s.height)*s.tall }

// axes draws the grid and the labels of the axes.
func (s *scale) axes(out *strings.Builder) {
	const ticks = 4
	var heights, steps []float64
	for k := range ticks + 1 {
		heights = append(heights, math.Floor(s.height*float64(k)/ticks))
		steps = append(steps, float64(int64((s.steps-1)*float64(k)/ticks)))
	}
	s.byteAxis(out, heights)
	s.stepAxis(out, slices.Compact(steps))
}

// byteAxis draws lines at some heights.
func (s *scale) byteAxis(out *strings.Builder, heights []float64) {
	for _, bytes := range heights {
		fmt.Fprintf(out, `<path class="grid" d="M%d %.1fh%d"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, s.y(bytes), plotWidth, left-8, s.y(bytes)+4, units.Short(int64(bytes)))
	}
}

// stepAxis writes the numbers of some steps, counted from the first, below the plot.
func (s *scale) stepAxis(out *strings.Builder, steps []float64) {
	foot := s.top + s.tall
	for _, step := range steps {
		fmt.Fprintf(out, `<text x="%.1f" y="%.0f" text-anchor="middle">%.0f</text>`+"\n", s.x(s.first+step+.5), foot+18, s.first+step)
	}
	fmt.Fprintf(out, `<text class="note" x="%d" y="%.0f" text-anchor="middle">step</text>`+"\n", left+plotWidth/2, foot+36)
}

// box is a rectangle in pixels.
func (s *scale) box(r Rect) (x, y, width, height float64) {
	x, y = s.x(float64(r.First)), s.y(float64(r.Offset)+float64(r.Bytes))
	return x, y, s.x(float64(r.Last)+1) - x, s.y(float64(r.Offset)) - y
}

// largest returns the rectangles that cover most of the picture, at most most of
// them, in the given order.
func (s *scale) largest(rects []Rect, most int) []Rect {
	if len(rects) <= most {
		return rects
	}
	area := func(r Rect) float64 {
		_, _, width, height := s.box(r)
		return width * height
	}
	areas := make([]float64, len(rects))
	for i, r := range rects {
		areas[i] = area(r)
	}
	slices.Sort(areas)
	least := areas[len(areas)-most]
	var list []Rect
	for _, r := range rects {
		if area(r) >= least && len(list) < most {
			list = append(list, r)
		}
	}
	return list
}

// rects draws the buffers, each at least thick enough to be visible.
func (s *scale) rects(out *strings.Builder, rects []Rect) {
	const seen = 0.3
	out.WriteString(`<g class="b">` + "\n")
	for i, r := range rects {
		x, y, width, height := s.box(r)
		if r.Bytes == 0 {
			continue
		}
		thin := ""
		if width < 2 || height < 2 {
			thin = " t"
		}
		colour := r.class
		if colour == "" {
			colour = fmt.Sprintf("c%d", i%colours)
		}
		fmt.Fprintf(out, `<rect class="%s%s" x="%.2f" y="%.2f" width="%.2f" height="%.2f"><title>%s: %s, steps %d-%d, offset %d</title></rect>`+"\n",
			colour, thin, x, y, max(width, seen), max(height, seen), escape(units.Name(r.Name)), units.Bytes(r.Bytes), r.First, r.Last, r.Offset)
	}
	out.WriteString("</g>\n")
}

// names writes the names of buffers into rectangles with enough room.
func (s *scale) names(out *strings.Builder, rects []Rect) {
	const letter, line, margin = 6.0, 13.0, 6.0
	out.WriteString(`<g class="n">` + "\n")
	for _, r := range rects {
		x, y, width, height := s.box(r)
		name := units.Name(r.Name)
		if r.Bytes == 0 || height < line || width < float64(len(name))*letter+margin {
			continue
		}
		fmt.Fprintf(out, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", x+width/2, y+height/2+3.5, escape(name))
	}
	out.WriteString("</g>\n")
}

// load draws the sum of the live bytes at each step; if there are more steps than
// pixels, the largest sum within a pixel.
func (s *scale) load(out *strings.Builder, rects []Rect) {
	type event struct {
		step  float64
		bytes int64
	}
	events := make([]event, 0, 2*len(rects))
	for _, r := range rects {
		events = append(events, event{float64(r.First), r.Bytes}, event{float64(r.Last) + 1, -r.Bytes})
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.step, b.step) })
	columns := int(min(s.steps, plotWidth))
	largest := make([]int64, columns)
	var load int64
	for i, e := range events {
		load += e.bytes
		if i+1 == len(events) || events[i+1].step == e.step {
			continue
		}
		from := int((e.step - s.first) * float64(columns) / s.steps)
		to := int((events[i+1].step - s.first - 1) * float64(columns) / s.steps)
		for c := from; c <= min(max(to, from), columns-1); c++ {
			largest[c] = max(largest[c], load)
		}
	}
	fmt.Fprintf(out, `<path class="load" d="%s"><title>load</title></path>`+"\n", s.curve(largest))
}

// curve is the path of a load given by columns of equal width.
func (s *scale) curve(columns []int64) string {
	var out strings.Builder
	fmt.Fprintf(&out, "M%d %.0f", left, s.y(0))
	at, width := int64(-1), float64(plotWidth)/float64(len(columns))
	for c, load := range columns {
		if load != at {
			fmt.Fprintf(&out, "H%.2fV%.2f", left+float64(c)*width, s.y(float64(load)))
		}
		at = load
	}
	fmt.Fprintf(&out, "H%d", left+plotWidth)
	return out.String()
}

// lines marks heights, each label above its line.
func (s *scale) lines(out *strings.Builder, lines []Line) {
	out.WriteString(`<g class="marks">` + "\n")
	for k, l := range lines {
		y := s.y(float64(l.Bytes))
		anchor, x := "end", left+plotWidth-4
		if k%2 == 1 {
			anchor, x = "start", left+4
		}
		fmt.Fprintf(out, `<path class="mark" d="M%d %.2fh%d"/><text x="%d" y="%.2f" text-anchor="%s">%s %s</text>`+"\n",
			left, y, plotWidth, x, y-4, anchor, escape(l.Name), units.Bytes(l.Bytes))
	}
	out.WriteString("</g>\n")
}

// escape escapes a text for XML.
func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder never fails
	return b.String()
}
