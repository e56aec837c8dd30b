package passes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/schedule"
)

// foldedZoo lists the models of the zoo that folding changes: nodes that are gone, new
// constants, and peak and total without folding, with exact and with any, in program
// order at the smallest sizes. No other model may change.
const foldedZoo = `
bert_base-b1: 40 nodes, 7 constants; peak 3604480 3604480 3604480, total 438718400 437537280 437537280
bert_base-contrib-b1: 17 nodes, 3 constants; peak 2359360 2359360 2359360, total 437931520 436751552 436751552
bert_base-int8-dynamic-b1: 40 nodes, 7 constants; peak 3604480 3604480 3604480, total 112417088 112120704 112120704
gpt2-dyn: 1 nodes, 1 constants; peak 154593664 204160 204224, total 651875456 651875456 497486144
gpt2-fp16-b1: 2 nodes, 2 constants; peak 83725952 6531200 6531200, total 332465920 330990848 253796224
gpt2_past-dyn: 1 nodes, 1 constants; peak 154741120 351616 351680, total 652502144 652502144 498112832
nasnetalarge-b1: 60 nodes, 4 constants; peak 31217152 31217152 31217152, total 385502144 385500352 385500352
transformer_base-b1: 29 nodes, 27 constants; peak 7202304 7202304 7202304, total 337542720 335683840 335683840
vit_b_16-b1: 140 nodes, 25 constants; peak 5446656 5446656 5446656, total 351736192 351735232 351735232
vit_b_16-fp16-b1: 8 nodes, 1 constants; peak 2724736 2724736 2724736, total 175878976 175878784 175878784
`

// TestFoldedZoo plans every model of the zoo with its weights as zeros. Make test takes every
// fourth.
func TestFoldedZoo(t *testing.T) {
	list := datafolder.Glob(t, "zoo", "*.onnx")
	dir := t.TempDir()
	weights, err := os.Create(filepath.Join(dir, "weights.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer weights.Close()
	if err := weights.Truncate(818 << 20); err != nil { // a hole, which takes no space
		t.Fatal(err)
	}
	var got, want strings.Builder
	for i, from := range list {
		name := strings.TrimSuffix(filepath.Base(from), ".onnx")
		if i%4 != 0 && !sweep.On() {
			continue
		}
		if name == "layered_24k-dyn" {
			continue // it has no weights, and takes longer than all the others
		}
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name+".onnx")
		if err := os.WriteFile(path, text, 0o666); err != nil {
			t.Fatal(err)
		}
		var nodes, constants int
		var peaks, totals [3]int64
		for i, fold := range []passes.Fold{passes.FoldOff, passes.FoldExact, passes.FoldAny} {
			f, err := onnx.Open(path, onnx.ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			r, err := passes.Optimize(t.Context(), f.Model, passes.Options{Fold: fold, Schedule: "program", Effort: schedule.EffortFast})
			if err != nil {
				t.Fatal(err)
			}
			peaks[i], totals[i] = r.Plan.Summary.PeakBytes, r.Plan.Summary.TotalBytes
			if p := r.Plan.Folded; p != nil && fold == passes.FoldExact {
				nodes, constants = p.Nodes, len(p.Tensors)
			} else if fold == passes.FoldExact && (peaks[1] != peaks[0] || totals[1] != totals[0]) {
				t.Errorf("%s: other figures, but nothing was folded", name)
			}
			if totals[i] > totals[0] {
				t.Errorf("%s: the total grew from %d to %d", name, totals[0], totals[i])
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for line := range strings.Lines(foldedZoo) {
			if strings.HasPrefix(line, name+":") {
				want.WriteString(line)
			}
		}
		if nodes > 0 {
			fmt.Fprintf(&got, "%s: %d nodes, %d constants; peak %d %d %d, total %d %d %d\n",
				name, nodes, constants, peaks[0], peaks[1], peaks[2], totals[0], totals[1], totals[2])
		}
	}
	if got.String() != want.String() || want.Len() == 0 {
		t.Errorf("found\n%sexpected\n%s", &got, &want)
	}
}
