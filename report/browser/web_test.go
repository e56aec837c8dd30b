package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

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
	m, err := models.Build("mobilenet_v2", models.Options{Set: map[string]string{"width": "0.25"}})
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
	b.run(chromedp.Navigate("file://"+filepath.ToSlash(page)), chromedp.SetUploadFiles("#file", []string{path}, chromedp.ByQuery),
		chromedp.WaitVisible("#figure-peak"), chromedp.Poll(`document.getElementById("why").textContent.length > 10`, nil))
	for _, id := range []string{"peak", "bound", "arena"} {
		if text := b.text("#figure-" + id); text == "" || text == "0 B" {
			t.Errorf("figure %s: %q", id, text)
		}
	}
	if why := b.text("#why"); len(why) < 100 {
		t.Errorf("no explanation: %q", why)
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
}
