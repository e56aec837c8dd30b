package fit_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/cmd/onnxmem/internal/fit"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
)

// written returns the file of a small network with an open batch.
func written(t *testing.T) string {
	t.Helper()
	m, err := models.Build("mobilenet_v1", models.Options{Set: map[string]string{"width": "0.25", "size": "64", "classes": "10"}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.onnx")
	im, err := onnx.Encode(m)
	if err == nil {
		err = onnx.Write(path, m, im, onnx.WriteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func job(path string) optimize.Job {
	j := optimize.Job{In: path}
	j.Align, j.Effort, j.Fold, j.Points, j.Order, j.ScheduleGoal = 64, "fast", "exact", 1, "file", "peak"
	j.Loss, j.Optimizer, j.LoRAAlpha, j.Slices = "cross-entropy", "sgd", 8, "off"
	return j
}

// planned plans a job by itself.
func planned(t *testing.T, j optimize.Job) fit.Need {
	t.Helper()
	f, err := onnx.Open(j.In, onnx.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	opt, err := (&optimize.Task{Job: j}).Options()
	if err != nil {
		t.Fatal(err)
	}
	r, err := passes.Optimize(context.Background(), f.Model, opt)
	if err != nil {
		t.Fatal(err)
	}
	n := fit.Need{Arena: r.Plan.Summary.ArenaBytes, Resident: r.Plan.Summary.ResidentBytes}
	for _, b := range r.Plan.Buffers {
		if b.Kind == plan.KindInput {
			n.Inputs += b.Bytes
		}
	}
	return n
}

// TestRows holds each row to plans that are made for it alone: the largest batch fits and one more does not,
// and a plan with extra time is within the room.
func TestRows(t *testing.T) {
	path := written(t)
	for _, train := range []bool{false, true} {
		j := job(path)
		j.Train = train
		at := planned(t, func() optimize.Job { k := j; k.Dim = k.Dim.With("batch", 4); return k }())
		devices := []fit.Device{
			{Name: "none", Kind: fit.Microcontroller, Bytes: 1 << 10},
			{Name: "little flash", Kind: fit.Microcontroller, Bytes: 1 << 30, Flash: 1 << 10},
			{Name: "four of a batch", Kind: fit.Microcontroller, Bytes: at.Arena + at.Resident},
			{Name: "nearly four", Kind: fit.Microcontroller, Bytes: at.Arena - 1},
			{Name: "container", Kind: fit.Process, Bytes: 128 << 20},
			{Name: "card", Kind: fit.GPU, Bytes: 1 << 30},
		}
		j.Dim = j.Dim.With("batch", 4)
		a, err := fit.Model(context.Background(), j, func() (*onnx.File, error) { return onnx.Open(path, onnx.ReadOptions{}) }, devices, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		if a.BatchDim != "batch" || a.Length != 4 || a.Need.Arena != at.Arena {
			t.Fatalf("train %v: batch %q = %d, arena %d; expected batch = 4, %d", train, a.BatchDim, a.Length, a.Need.Arena, at.Arena)
		}
		for _, r := range a.Rows {
			fits := func(n fit.Need) bool {
				if r.Kind == fit.Microcontroller && !train {
					return n.Arena <= r.Bytes-r.Taken && (r.Flash == 0 || n.Resident <= r.Flash)
				}
				if r.Kind == fit.Process {
					n.Resident += n.Inputs
				}
				return n.Arena+n.Resident <= r.Bytes-r.Taken
			}
			if got := fits(at); got != r.Fits {
				t.Errorf("train %v: %s: fits %v, expected %v", train, r.Name, r.Fits, got)
			}
			k := j
			for length, want := range map[int64]bool{r.Batch: true, r.Batch + 1: false} {
				if length == 0 {
					continue
				}
				k.Dim = j.Dim.With("batch", length)
				if n := planned(t, k); fits(n) != want {
					t.Errorf("train %v: %s: the largest batch is %d, and %d takes %d + %d bytes", train, r.Name, r.Batch, length, n.Arena, n.Resident)
				}
			}
			switch {
			case r.Fits && (r.Extra != nil || r.Why != ""):
				t.Errorf("train %v: %s fits, and has a price or a reason: %q", train, r.Name, r.Why)
			case !r.Fits && (r.Extra == nil) == (r.Why == ""):
				t.Errorf("train %v: %s does not fit: expected a price or a reason, found %v and %q", train, r.Name, r.Extra, r.Why)
			case r.Extra != nil && !fits(fit.Need{Arena: r.LimitedArena, Resident: at.Resident, Inputs: at.Inputs}):
				t.Errorf("train %v: %s: the plan of %v %% more time takes %d bytes", train, r.Name, *r.Extra, r.LimitedArena)
			}
		}
		for i, h := range a.Helps {
			if i > 0 && h.Need.Total() < a.Helps[i-1].Need.Total() {
				t.Errorf("train %v: %s helps more than what stands before it", train, h.Flags)
			}
		}
		if len(a.Helps) == 0 {
			t.Errorf("train %v: nothing helps, and 16 bits do", train)
		}
	}
}

// TestRead: a file of devices, and what each fault in one says.
func TestRead(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"devices": [{"name": "b", "kind": "microcontroller", "memory": "320KiB", "flash": "1MiB"}, {"name": "c", "kind": "gpu", "memory": "8GB"}]}`, ""},
		{`[]`, `expected {"devices": [`},
		{`{"devices": []}`, "expected 1 to 1000 devices, found 0"},
		{`{"devices": [{"name": "", "kind": "gpu", "memory": "8GB"}]}`, "device 1: expected a name"},
		{`{"devices": [{"name": "b", "kind": "tpu", "memory": "8GB"}]}`, `device 1, "b": kind "tpu": expected "microcontroller", "process" or "gpu"`},
		{`{"devices": [{"name": "b", "kind": "gpu", "memory": "much"}]}`, `"much" is not a size`},
		{`{"devices": [{"name": "b", "kind": "gpu", "memory": "0"}]}`, "expected a memory of at least one byte"},
		{`{"devices": [{"name": "b", "kind": "gpu", "memory": "1", "flash": "1MiB"}]}`, "flash is for a microcontroller"},
		{`{"devices": [{"name": "b", "kind": "gpu"}]}`, "memory"},
	} {
		path := filepath.Join(t.TempDir(), "devices.json")
		if err := os.WriteFile(path, []byte(c.text), 0o666); err != nil {
			t.Fatal(err)
		}
		list, err := fit.Read(path)
		switch {
		case c.want == "" && (err != nil || len(list) != 2 || list[0] != fit.Device{Name: "b", Kind: fit.Microcontroller, Bytes: 320 << 10, Flash: 1 << 20}):
			t.Errorf("%s: found %v, %v", c.text, list, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path)):
			t.Errorf("%s: found %v, expected %q", c.text, err, c.want)
		}
	}
}

// TestMatch: devices by a part of the name, a pattern or a kind.
func TestMatch(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  int
	}{{nil, len(fit.Devices())}, {[]string{"gpu"}, 6}, {[]string{"micro"}, 5}, {[]string{"esp32"}, 1}, {[]string{"?? GB card"}, 4}, {[]string{"rp2040", "2 GiB"}, 2}} {
		list, err := fit.Match(fit.Devices(), c.words)
		if err != nil || len(list) != c.want {
			t.Errorf("%q: found %d devices, expected %d (%v)", c.words, len(list), c.want, err)
		}
	}
	if _, err := fit.Match(fit.Devices(), []string{"abacus"}); err == nil || !strings.Contains(err.Error(), `"abacus"`) {
		t.Errorf("found %v, expected an error that names the word", err)
	}
}
