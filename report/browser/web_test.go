package browser

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/onnx"
)

// The page that plans in the browser (`make web`), opened from the disk, shows the figures of a
// model that is opened, in three widths, light and dark, and makes no complaint.
func TestPlannerPage(t *testing.T) {
	page, err := filepath.Abs(filepath.Join("..", "..", "build", "web", "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(page); err != nil {
		t.Skip("no page: make web builds it")
	}
	b := listen(t, startBrowser(t))
	m, err := models.Build("mobilenet_v2", models.Options{Set: map[string]string{"width": "0.25", "size": "160"}})
	if err != nil {
		t.Fatal(err)
	}
	im, err := onnx.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "mobilenet.onnx")
	if err := onnx.Write(path, m, im, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	long := chromedp.WithPollingTimeout(10 * time.Minute)
	b.run(chromedp.Navigate("file://"+filepath.ToSlash(page)), chromedp.SetUploadFiles("#file", []string{path}, chromedp.ByQuery),
		chromedp.WaitVisible("#figure-peak"), chromedp.Poll(`document.getElementById("why").textContent.length > 10`, nil, long))
	for _, id := range []string{"peak", "bound", "arena"} {
		if text := b.text("#figure-" + id); text == "" || text == "0 B" {
			t.Errorf("figure %s: %q", id, text)
		}
	}
	if why := b.text("#why"); len(why) < 100 {
		t.Errorf("no explanation: %q", why)
	}
	// What is offered as downloads has the bytes of the command's files.
	command, err := filepath.Abs(filepath.Join("..", "..", "bin", "onnxmem"))
	if err != nil {
		t.Fatal(err)
	}
	planned := filepath.Join(filepath.Dir(path), "mobilenet.planned.onnx")
	if out, err := exec.Command(command, "optimize", path, planned).CombinedOutput(); err != nil {
		t.Fatalf("the command (make build): %v: %s", err, out)
	}
	b.run(chromedp.Evaluate(`made = null; makeURL = URL.createObjectURL;
		URL.createObjectURL = (blob) => { blob.arrayBuffer().then((a) => { made = Array.from(new Uint8Array(a), (x) => String.fromCharCode(x)).join(""); }); return makeURL(blob); }`, nil))
	for title, file := range map[string]string{"Planned model": planned, "Plan (JSON)": strings.TrimSuffix(planned, ".onnx") + ".plan.json"} {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		b.run(chromedp.Evaluate(fmt.Sprintf(`made = null; [...document.querySelectorAll("#downloads button")].find((x) => x.textContent === %q).click()`, title), nil),
			chromedp.Poll(`made !== null`, nil), chromedp.Evaluate(`btoa(made)`, &got))
		if bytes, err := base64.StdEncoding.DecodeString(got); err != nil || string(bytes) != string(want) {
			t.Errorf("%s: %d B (%v), %d B by the command, and others", title, len(bytes), err, len(want))
		}
	}
	for _, width := range []int64{390, 800, 1300} {
		for _, scheme := range []string{"light", "dark"} {
			b.run(emulation.SetDeviceMetricsOverride(width, 1200, 1, false),
				emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
			b.waitForDraw()
			if over := eval[int](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
				t.Errorf("at %d pixels the page is %d too wide", width, over)
			}
			b.screenshot(fmt.Sprintf("planner-%d-%s", width, scheme))
		}
	}

	// A training step has other figures; the price of a limit stands beside the slider; a run that is cancelled ends.
	before := b.text("#figure-peak")
	b.run(chromedp.Click("#train"), chromedp.Click("#limited"), chromedp.Click("#price"),
		chromedp.Poll(fmt.Sprintf(`document.getElementById("figure-peak").textContent !== %q && document.getElementById("cancel").hidden`, before), nil, long))
	b.run(chromedp.Evaluate(`$("limit").value = 80; $("limit").dispatchEvent(new Event("input"))`, nil))
	if note := b.text("#limit-note"); !strings.HasPrefix(note, "80 % of the best order's peak: ") || !strings.HasSuffix(note, " % more time") {
		t.Errorf("beside the slider stands %q", note)
	}
	b.run(chromedp.Click("#go"), chromedp.Click("#cancel"), chromedp.Poll(`document.getElementById("cancel").hidden`, nil, long))
	if text := b.text("#error"); text != "" {
		t.Errorf("after a run that was cancelled: %q", text)
	}
	b.run(chromedp.Click("#go"), chromedp.Poll(`document.getElementById("cancel").hidden && document.getElementById("text").textContent.includes("limit")`, nil, long))
	if peak := b.text("#figure-peak"); peak == "" || peak == before {
		t.Errorf("below a limit, the peak is %q", peak)
	}
}
