package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/report"
)

// screenshots is the folder for pictures of the pages, for people to look at.
var screenshots = filepath.Join("..", "..", "build", "screenshots")

// startBrowser starts a real browser, or skips the test with a reason.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes seconds: left out by -short")
	}
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("no browser: install chromium to test the report's page in one")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1300, 1400),
		chromedp.WSURLReadTimeout(time.Minute), chromedp.UserDataDir(profile(t)))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 15*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Run(ctx); err != nil {
		t.Skipf("%s does not start, so the page is not tested in it: %v", path, err)
	}
	t.Cleanup(func() { _ = chromedp.Cancel(ctx) }) // asks it to end, and waits
	return ctx
}

// profile returns a folder for the browser's files. It is not t.TempDir's: helper processes
// of the browser may write there for a moment after the browser has ended, and a file that
// appears while the folder is removed would fail a test that has passed.
func profile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "onnxmem-browser-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 100 {
			if os.RemoveAll(dir) == nil {
				return
			}
		}
		t.Logf("%s could not be removed", dir)
	})
	return dir
}

// tab is a page in the browser.
type tab struct {
	*testing.T
	ctx   context.Context
	bytes int // of the page

	mu     sync.Mutex
	faults []string // complaints of the console, the script or the security policy
}

// open writes a plan's page and opens it in a tab in front; a tab in the background does
// not draw.
func open(t *testing.T, browser context.Context, p *plan.Plan) *tab {
	t.Helper()
	b := listen(t, browser)
	var page bytes.Buffer
	if err := report.Page(&page, p, "made for a test"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "report.html")
	b.bytes = page.Len()
	if err := os.WriteFile(path, page.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	b.run(log.Enable(), cdppage.BringToFront(), chromedp.Navigate("file://"+filepath.ToSlash(path)), chromedp.WaitVisible("#live tbody"))
	return b
}

// listen opens a tab in which every complaint fails the test.
func listen(t *testing.T, browser context.Context) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	b := &tab{T: t, ctx: ctx}
	chromedp.ListenTarget(ctx, func(ev any) {
		fault := ""
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			fault = ev.ExceptionDetails.Error()
		case *runtime.EventConsoleAPICalled:
			if ev.Type == runtime.APITypeError || ev.Type == runtime.APITypeWarning {
				fault = fmt.Sprint("console: ", string(ev.Args[0].Value))
			}
		case *log.EventEntryAdded:
			if ev.Entry.Level == log.LevelError { // includes requests that the security policy blocks
				fault = "log: " + ev.Entry.Text
			}
		case *cdppage.EventJavascriptDialogOpening:
			fault = "dialog: " + ev.Message
		}
		if fault != "" {
			b.mu.Lock()
			b.faults = append(b.faults, fault)
			b.mu.Unlock()
		}
	})
	chromedp.Run(ctx, log.Enable(), cdppage.BringToFront())
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, fault := range b.faults {
			t.Errorf("the browser complains: %s", fault)
		}
	})
	return b
}

func (b *tab) run(actions ...chromedp.Action) {
	b.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.Fatal(err)
	}
}

// eval returns the value of an expression in the page.
func eval[T any](b *tab, format string, args ...any) T {
	b.Helper()
	var v T
	script := fmt.Sprintf(format, args...)
	if err := chromedp.Run(b.ctx, chromedp.Evaluate(script, &v)); err != nil {
		b.Fatalf("%s: %v", script, err)
	}
	return v
}

// text returns the text of an element.
func (b *tab) text(selector string) string {
	b.Helper()
	return eval[string](b, "document.querySelector(%s).innerText", quoted(selector))
}

func quoted(s string) string {
	q, _ := json.Marshal(s) // a string is always JSON
	return string(q)
}

// waitForDraw waits until the page has drawn its changes.
func (b *tab) waitForDraw() {
	b.Helper()
	b.run(chromedp.Evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))).then(() => 0)", nil,
		func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
}

// mouse scrolls a place of the page into view and sends an event there.
func (b *tab) mouse(kind input.MouseType, x, y float64, more ...func(*input.DispatchMouseEventParams)) {
	b.Helper()
	e := input.DispatchMouseEvent(kind, x, y)
	for _, m := range more {
		m(e)
	}
	b.run(e)
}

// screenshot saves a picture of the page.
func (b *tab) screenshot(name string) {
	b.Helper()
	var png []byte
	b.run(chromedp.FullScreenshot(&png, 100))
	b.keep(name+".png", png)
}

// keep writes a file into the folder of pictures.
func (b *tab) keep(name string, bytes []byte) {
	b.Helper()
	if err := os.MkdirAll(screenshots, 0o777); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(screenshots, name), bytes, 0o666); err != nil {
		b.Fatal(err)
	}
}

// screenshotOf saves a picture of the visible part.
func (b *tab) screenshotOf(selector, name string) {
	b.Helper()
	var png []byte
	b.run(chromedp.ScrollIntoView(selector), chromedp.CaptureScreenshot(&png))
	b.keep(name+".png", png)
}
