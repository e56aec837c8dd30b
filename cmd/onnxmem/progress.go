package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/passes"
)

// progressDelay is the time after which the line of a long computation is drawn.
const progressDelay = time.Second

// progress is a line that shows the progress of long work, on a terminal only.
type progress struct {
	w     io.Writer
	total int
	wait  *time.Timer // draws the line; nil: never

	mu      sync.Mutex // a goroutine of its own draws the line
	begun   int        // works, the present one among them: a full bar would end the line
	name    string
	note    string // results so far
	stopped bool
	p       *mpb.Progress
	bar     *mpb.Bar
}

func newProgress(w io.Writer, total int) *progress {
	p := &progress{w: w, total: total}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		p.wait = time.AfterFunc(progressDelay, p.draw)
	}
	return p
}

// draw begins the line.
func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	p.p = mpb.New(mpb.WithOutput(p.w), mpb.WithWidth(20))
	p.bar = p.p.AddBar(int64(p.total), mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return p.text() })),
		mpb.AppendDecorators(decor.Elapsed(decor.ET_STYLE_MMSS)))
	p.bar.SetCurrent(int64(p.begun - 1))
}

func (p *progress) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.note == "" {
		return p.name + " "
	}
	return p.name + ": " + p.note + " "
}

// step sets the name of the present work.
func (p *progress) step(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun++
	p.name, p.note = name, ""
	if p.bar != nil {
		p.bar.SetCurrent(int64(p.begun - 1))
	}
}

// follow shows the passes of planning in the line.
func (p *progress) follow(opt *passes.Options) {
	opt.Progress = p.showSearch
	opt.RangeProgress = p.showPoints
	trace := opt.Trace
	list := []string{}
	for _, pass := range passes.Default() {
		list = append(list, pass.Name)
	}
	list = append(list, "verify")
	p.step(list[0])
	opt.Trace = func(pass passes.Pass, d time.Duration) {
		if next := slices.Index(list, pass.Name) + 1; next < len(list) {
			p.step(list[next])
		}
		if trace != nil {
			trace(pass, d)
		}
	}
}

// showSearch shows the state of a search for an order.
func (p *progress) showSearch(bound, peak int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note = fmt.Sprintf("bound %s, peak %s, gap %.2f %%", units.Short(bound), units.Short(peak), units.GapPercent(bound, peak))
}

// showArena shows the state of a solver that places buffers.
func (p *progress) showArena(bound, arena int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note = fmt.Sprintf("bound %s, arena %s, gap %.2f %%", units.Short(bound), units.Short(arena), units.GapPercent(bound, arena))
}

// showPoints shows for how many points of a range a plan is proven.
func (p *progress) showPoints(done, points int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note = fmt.Sprintf("%d of %d points", done, points)
}

// showKernels shows how many sources of a device's kernels are compiled.
func (p *progress) showKernels(done, sources int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note = fmt.Sprintf("kernels, %d of %d files", done, sources)
}

// stop removes the line.
func (p *progress) stop() {
	if p.wait == nil {
		return
	}
	p.wait.Stop()
	p.mu.Lock()
	p.stopped = true
	bar, all := p.bar, p.p
	p.bar = nil
	p.mu.Unlock()
	if bar != nil {
		bar.Abort(true)
		all.Wait()
	}
}
