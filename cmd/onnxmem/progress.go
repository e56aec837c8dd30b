package main

import (
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// progressDelay is how long work must take before a line is drawn for it.
const progressDelay = 500 * time.Millisecond

// progress is one line that moves, on a terminal only, for work that takes long.
type progress struct {
	began time.Time
	w     io.Writer
	total int
	done  int
	name  string
	p     *mpb.Progress
	bar   *mpb.Bar
}

func newProgress(w io.Writer, total int) *progress {
	p := &progress{began: time.Now(), total: total}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		p.w = w
	}
	return p
}

// step says what is done next.
func (p *progress) step(name string) {
	p.done++
	p.name = name
	if p.w == nil || time.Since(p.began) < progressDelay {
		return
	}
	if p.bar == nil {
		p.p = mpb.New(mpb.WithOutput(p.w), mpb.WithWidth(40))
		p.bar = p.p.AddBar(int64(p.total), mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return p.name + " " })),
			mpb.AppendDecorators(decor.Elapsed(decor.ET_STYLE_MMSS)))
	}
	p.bar.SetCurrent(int64(p.done))
}

// stop takes the line away.
func (p *progress) stop() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.p.Wait()
		p.bar = nil
	}
}
