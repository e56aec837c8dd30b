package browser

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/report"
	"github.com/onnxmem/onnxmem/report/internal/samples"
)

// network plans a built-in network.
func network(t *testing.T, name string, opt passes.Options) *plan.Plan {
	t.Helper()
	m, err := models.Build(name, models.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := passes.Optimize(t.Context(), m, opt)
	if err != nil {
		t.Fatal(err)
	}
	return r.Plan
}

// TestBrowser opens pages in a real browser and uses them as people do. It saves
// pictures of them in build/screenshots.
func TestBrowser(t *testing.T) {
	browser := startBrowser(t)
	t.Run("a network", func(t *testing.T) {
		p := network(t, "resnet50", passes.Options{Dims: map[string]int64{"batch": 8}})
		b := open(t, browser, p)
		b.figures(p)
		b.hover(p)
		b.search(p)
		b.table(p)
		b.linkedZoom()
		b.keyboard(p)
		b.frames()
		b.looks()
	})
	t.Run("hostile names", func(t *testing.T) {
		p := samples.Hostile(t)
		b := open(t, browser, p)
		b.run(chromedp.SendKeys("#find", "<"))
		b.waitForDraw()
		if n := eval[int](b, "document.querySelectorAll('#found li').length"); n == 0 {
			t.Error("names are not found")
		}
		eval[int](b, "onnxmem.select(0), onnxmem.drawAll(), 0")
		if got := eval[string](b, "String(window.pwned)"); got != "undefined" {
			t.Errorf("a name was run: %s", got)
		}
		if got := b.text("#picked"); !strings.Contains(got, "</script><script>window.pwned=1</script>") {
			t.Errorf("the name is not shown as it is: %s", got)
		}
		b.screenshot("hostile")
	})
	t.Run("50,000 buffers", func(t *testing.T) {
		b := open(t, browser, samples.Lanes(t, 50_000, 96))
		b.screenshot("50000-buffers")
		b.frames()
	})
	t.Run("a plan without nodes", func(t *testing.T) {
		b := open(t, browser, &plan.Plan{
			Pools:   []plan.Pool{{Name: plan.Arena, Bytes: 64}},
			Buffers: []plan.Buffer{{Pool: plan.Arena, Bytes: 64, Kind: plan.KindInput, Tensors: []string{"x"}}},
			Summary: plan.Summary{NaiveBytes: 64, PeakBytes: 64, ProgramPeakBytes: 64, ArenaBytes: 64, TotalBytes: 64},
		})
		if got := b.text("#live tbody"); !strings.Contains(got, "64 B") {
			t.Errorf("the table shows %q", got)
		}
	})
}

// figures: the page shows the figures of the plan.
func (b *tab) figures(p *plan.Plan) {
	b.Helper()
	s := p.Summary
	for id, bytes := range map[string]int64{
		"peak": s.PeakBytes, "program": s.ProgramPeakBytes, "bound": s.LowerBoundBytes,
		"arena": s.ArenaBytes, "resident": s.ResidentBytes, "total": s.TotalBytes,
	} {
		got := b.text(fmt.Sprintf("[data-figure=%s]", id))
		if !strings.Contains(got, units.Short(bytes)) || !strings.Contains(got, units.Group(bytes)+" B") {
			b.Errorf("%s: %q, expected %s", id, got, units.Bytes(bytes))
		}
	}
	loads := eval[[]int64](b, "onnxmem.steps.load")
	for i, load := range loads {
		if load != p.Steps[i].LoadBytes {
			b.Fatalf("step %d: load %d, expected %d", i, load, p.Steps[i].LoadBytes)
		}
	}
	if got := b.text("#at"); !strings.Contains(got, "step "+strconv.Itoa(s.PeakStep)) || !strings.Contains(got, units.Short(s.PeakBytes)) {
		b.Errorf("the line below the curves says %q", got)
	}
	for _, bytes := range []int64{0, 1, 1023, 1024, 57802752, 8028160, 1<<20 + 1<<13, 3 << 18, 12345678901234} {
		if got := eval[string](b, "onnxmem.exact(%d)", bytes); got != units.Bytes(bytes) {
			b.Errorf("the page prints %d bytes as %q, expected %q", bytes, got, units.Bytes(bytes))
		}
	}
}

// point returns the middle of a buffer on the screen.
func (b *tab) point(i int) (x, y float64) {
	b.Helper()
	b.run(chromedp.ScrollIntoView("#map"))
	at := eval[[]float64](b, `(() => { const r = document.querySelector("#map").getBoundingClientRect(), o = onnxmem, k = %d;
		return [r.left + (o.mapX(o.buffers.first[k]) + o.mapX(o.buffers.last[k] + 1)) / 2, r.top + o.mapY(o.buffers.offset[k] + o.buffers.bytes[k] / 2)]; })()`, i)
	return at[0], at[1]
}

// hover: pointing at a buffer shows its details.
func (b *tab) hover(p *plan.Plan) {
	b.Helper()
	live := report.LiveAt(p, p.Summary.PeakStep, 3)
	for _, want := range live {
		i := eval[int](b, "onnxmem.buffers.tensors.findIndex((t) => t[0] === %s)", quoted(want.Tensors[0]))
		x, y := b.point(i)
		b.mouse(input.MouseMoved, x, y)
		b.waitForDraw()
		tip := b.text("#tip")
		for _, text := range []string{
			want.Tensors[0], units.Bytes(want.Bytes), fmt.Sprintf("steps %d–%d", want.First, want.Last),
			report.StepName(p, want.First), report.StepName(p, want.Last), units.Group(want.Offset) + " B in arena",
		} {
			if !strings.Contains(tip, text) {
				b.Errorf("buffer %s: %q is not in %q", want.Tensors[0], text, tip)
			}
		}
	}
	b.screenshotOf("#map", "hover")
	b.mouse(input.MouseMoved, 2, 2)
	b.waitForDraw()
	if !eval[bool](b, "document.querySelector('#tip').hidden") {
		b.Error("the tip stays when nothing is pointed at")
	}
}

// search: a part of a name marks the matching buffers in both pictures; Enter shows one.
func (b *tab) search(p *plan.Plan) {
	b.Helper()
	before := b.pixels()
	b.run(chromedp.SendKeys("#find", "layer2.0"))
	b.waitForDraw()
	tensors, nodes := 0, 0
	for i := range p.Buffers {
		for _, t := range p.Buffers[i].Tensors {
			if strings.Contains(t, "layer2.0") {
				tensors++
				break
			}
		}
	}
	for i := range p.Steps {
		if strings.Contains(p.Steps[i].Name, "layer2.0") {
			nodes++
		}
	}
	if got, want := b.text("#count"), fmt.Sprintf("%d buffers, %d nodes", tensors, nodes); got != want {
		b.Errorf("found %q, expected %q", got, want)
	}
	marked := b.pixels()
	for i, name := range []string{"curve", "map"} {
		if before[i] == marked[i] {
			b.Errorf("nothing is marked in the %s", name)
		}
	}
	b.screenshot("search")
	b.run(chromedp.SendKeys("#find", strings.Repeat(kb.Backspace, 8)+"layer1.0.conv3"+kb.Enter))
	b.waitForDraw()
	if got := b.text("#picked"); !strings.Contains(got, "layer1.0.conv3") || !strings.Contains(got, "Size") {
		b.Errorf("Enter shows %q", got)
	}
	b.run(chromedp.SendKeys("#find", kb.Escape+kb.Escape))
	b.waitForDraw()
	if got := b.text("#count") + b.text("#picked"); got != "" {
		b.Errorf("Escape leaves %q", got)
	}
}

// pixels returns sums over the pixels of both pictures.
func (b *tab) pixels() []float64 {
	b.Helper()
	return eval[[]float64](b, `["#load canvas", "#map canvas:nth-of-type(2)"].map((s) => {
		const c = document.querySelector(s), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
		return d.reduce((sum, v, i) => sum + v * (1 + i %% 7), 0); })`)
}

// table: it lists all buffers that are live at the peak, and its columns sort.
func (b *tab) table(p *plan.Plan) {
	b.Helper()
	live := report.LiveAt(p, p.Summary.PeakStep, len(p.Buffers))
	rows := func(column int) []string {
		return eval[[]string](b, "[...document.querySelectorAll('#live tbody tr')].map((tr) => tr.children[%d].innerText.trim())", column)
	}
	sizes := rows(2)
	if len(sizes) != len(live) {
		b.Fatalf("%d rows, expected %d", len(sizes), len(live))
	}
	sum := int64(0)
	for i, l := range live {
		sum += l.Bytes
		if sizes[i] != units.Bytes(l.Bytes) {
			b.Errorf("row %d: %s, expected %s", i, sizes[i], units.Bytes(l.Bytes))
		}
	}
	if sum != p.Summary.PeakBytes || !strings.Contains(b.text("#live-title"), units.Short(sum)) {
		b.Errorf("the rows sum up to %d, expected the peak %d in %q", sum, p.Summary.PeakBytes, b.text("#live-title"))
	}
	click := func(column int) []string {
		b.run(chromedp.Click(fmt.Sprintf("#live th:nth-child(%d) button", column+1)))
		return rows(column)
	}
	if up := click(2); up[0] != units.Bytes(live[len(live)-1].Bytes) {
		b.Errorf("sorted by size upwards the first is %s", up[0])
	}
	if got := eval[string](b, "document.querySelector('#live th:nth-child(3)').ariaSort"); got != "ascending" {
		b.Errorf("aria-sort is %q", got)
	}
	names := click(0)
	for i := 1; i < len(names); i++ {
		if names[i] < names[i-1] {
			b.Errorf("sorted by name %q comes after %q", names[i], names[i-1])
		}
	}
	click(2)
}

// linkedZoom: both pictures always show the same steps.
func (b *tab) linkedZoom() {
	b.Helper()
	type seen struct{ X0, X1, C0, C1 float64 }
	look := func() seen {
		b.waitForDraw()
		return eval[seen](b, "({X0: onnxmem.view.x0, X1: onnxmem.view.x1, C0: onnxmem.chart().scales.x.min, C1: onnxmem.chart().scales.x.max})")
	}
	middle := func(selector string) (x, y float64) {
		b.run(chromedp.ScrollIntoView(selector))
		at := eval[[]float64](b, "(() => { const r = document.querySelector(%s).getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; })()", quoted(selector))
		return at[0], at[1]
	}
	all := look()
	check := func(what string, got seen, narrower bool) {
		b.Helper()
		if got.X0 != got.C0 || got.X1 != got.C1 || narrower != (got.X1-got.X0 < all.X1-all.X0) {
			b.Errorf("%s: the map shows steps %v-%v, the chart %v-%v", what, got.X0, got.X1, got.C0, got.C1)
		}
	}
	x, y := middle("#load .u-over")
	b.mouse(input.MouseWheel, x, y, func(e *input.DispatchMouseEventParams) {
		e.DeltaY, e.Modifiers = -200, input.ModifierCtrl
	})
	check("Ctrl-wheel on the chart", look(), true)
	x, y = middle("#map .over")
	drag := func(dx, dy float64, modifiers input.Modifier) {
		b.mouse(input.MousePressed, x, y, func(e *input.DispatchMouseEventParams) {
			e.Button, e.ClickCount, e.Modifiers = input.Left, 1, modifiers
		})
		b.mouse(input.MouseMoved, x+dx, y+dy, func(e *input.DispatchMouseEventParams) { e.Button, e.Modifiers = input.Left, modifiers })
		b.mouse(input.MouseReleased, x+dx, y+dy, func(e *input.DispatchMouseEventParams) {
			e.Button, e.ClickCount, e.Modifiers = input.Left, 1, modifiers
		})
	}
	before := look()
	drag(60, 0, input.ModifierShift)
	panned := look()
	check("Shift-drag on the map", panned, true)
	if panned.X0 >= before.X0 || panned.X1-panned.X0-(before.X1-before.X0) > 1e-6 {
		b.Errorf("Shift-drag to the right moves from %v to %v", before, panned)
	}
	drag(200, 80, 0)
	check("drag on the map", look(), true)
	b.screenshotOf("#map", "zoomed")
	b.run(chromedp.Click("#all"))
	check("All", look(), false)
}

// keyboard: the pictures can be used without a mouse.
func (b *tab) keyboard(p *plan.Plan) {
	b.Helper()
	press := func(selector, keys string) {
		b.run(chromedp.Focus(selector), chromedp.KeyEvent(keys))
		b.waitForDraw()
	}
	press("#load", "\u001b")
	press("#load", kb.Escape) // points at nothing
	press("#load", kb.ArrowRight)
	if got, want := b.text("#at"), fmt.Sprintf("Step %d", p.Summary.PeakStep+1); !strings.Contains(got, want) {
		b.Errorf("an arrow to the right from the peak shows %q, expected %s", got, want)
	}
	press("#map", kb.ArrowUp)
	if got := b.text("#picked"); !strings.Contains(got, "Lifetime") {
		b.Errorf("an arrow upwards picks %q", got)
	}
	press("#map", "+")
	if !eval[bool](b, "onnxmem.view.x1 - onnxmem.view.x0 < onnxmem.steps.count") {
		b.Error("+ does not zoom")
	}
	press("#map", "0")
	press("#map", "/")
	if got := eval[string](b, "document.activeElement.id"); got != "find" {
		b.Errorf("/ goes to %q", got)
	}
	press("#map", kb.Escape)
}

// looks saves pictures of the page in several forms: light, dark, narrow, on paper.
func (b *tab) looks() {
	b.Helper()
	b.run(chromedp.Evaluate("document.activeElement.blur(), scrollTo(0, 0)", nil))
	b.waitForDraw()
	b.screenshot("light")
	light := eval[string](b, "getComputedStyle(document.body).backgroundColor")
	b.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}))
	b.waitForDraw()
	if dark := eval[string](b, "getComputedStyle(document.body).backgroundColor"); dark == light {
		b.Errorf("dark looks as light does: %s", dark)
	}
	b.screenshot("dark")
	b.run(chromedp.EmulateViewport(390, 844))
	b.waitForDraw()
	if wide := eval[int](b, "document.documentElement.scrollWidth"); wide > 390 {
		b.Errorf("on a narrow screen the page is %d pixels wide", wide)
	}
	b.screenshot("narrow")
	var pdf []byte
	b.run(chromedp.EmulateViewport(1300, 1400), chromedp.ActionFunc(func(ctx context.Context) (err error) {
		pdf, _, err = cdppage.PrintToPDF().WithPrintBackground(false).Do(ctx)
		return err
	}))
	b.keep("print.pdf", pdf)
}

// frames moves over all buffers and logs the time of a frame. It asserts nothing,
// because time depends on the machine.
func (b *tab) frames() {
	b.Helper()
	const script = `(async () => {
		const o = onnxmem, n = o.steps.count, frame = () => new Promise(requestAnimationFrame);
		const canvas = document.querySelector("#map canvas"), work = [], whole = [], chart = [];
		let last = await frame();
		for (let i = 0; i < 40; i++) {
			const w = n * (1 - i / 80);
			o.show((n - w) * i / 40, (n - w) * i / 40 + w);
			const t = performance.now();
			o.drawChart();
			chart.push(performance.now() - t);
			o.drawMap();
			canvas.getContext("2d").getImageData(0, 0, 1, 1); // waits for the pixels
			work.push(performance.now() - t);
			const now = await frame();
			whole.push(now - last);
			last = now;
		}
		const median = (l) => l.sort((a, b) => a - b)[l.length >> 1];
		const hover = [];
		for (let i = 0; i < 40; i++) {
			const t = performance.now();
			o.view.step = Math.floor(i * n / 40); o.view.buffer = o.bufferAt({x: i / 40, y: 0.5});
			o.drawAll();
			hover.push(performance.now() - t);
		}
		o.view.step = o.view.buffer = -1;
		o.showAll();
		return {median: median(work), least: work[0], frame: median(whole), chart: median(chart), hover: median(hover), hoverLeast: hover[0]};
	})()`
	var got struct{ Median, Least, Frame, Chart, Hover, HoverLeast float64 }
	b.run(chromedp.Evaluate(script, &got, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	b.Logf("%d buffers, a page of %d bytes: both pictures are drawn in %.1f ms (least of 40; median %.1f, of which the chart %.1f; from frame to frame %.1f), the marks under the cursor in %.1f ms (median %.1f)",
		eval[int](b, "onnxmem.buffers.count"), b.bytes, got.Least, got.Median, got.Chart, got.Frame, got.HoverLeast, got.Hover)
}
