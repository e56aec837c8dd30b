package autodiff

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/onnx"
)

// TestExportRules writes the model and the training step of every case of a rule to the
// folder ONNXMEM_RULES, with the elements of their inputs and the gradients, for
// crosscheck/rules.py, which runs them in ONNX Runtime and PyTorch. Elements are float32,
// which more kernels take.
func TestExportRules(t *testing.T) {
	dir := os.Getenv("ONNXMEM_RULES")
	if dir == "" {
		t.Skip("ONNXMEM_RULES is not set: this test writes files for crosscheck/rules.py")
	}
	for i, c := range allRuleCases() {
		if c.training || c.op == "Dropout" {
			continue // its forward pass is not the model's
		}
		opset := int64(18)
		if len(c.opsets) > 0 && !slices.Contains(c.opsets, opset) {
			opset = c.opsets[len(c.opsets)-1]
		}
		for k, o := range c.in {
			if o.elem == graph.Float64 {
				c.in[k].elem = graph.Float32
			}
		}
		t.Run(fmt.Sprintf("%s/%s", c.op, c.name), func(t *testing.T) {
			b := c.model(t, opset)
			step, err := Train(b.m, Options{
				Loss: "none:objective", Trainable: regexp.MustCompile(`^p\d+$`), KeepGradients: true, FreezeStatistics: c.freeze,
			})
			if err != nil {
				t.Fatal(err)
			}
			feeds := feedsOf(t, step, b.feeds)
			got, err := reference.Eval(step.Model, feeds, gradientsOf(step, lossName)...)
			if err != nil {
				t.Fatal(err)
			}
			record := map[string]any{"domain": c.domain, "op": c.op, "case": c.name, "opset": opset, "zero": c.zero, "feeds": plain(feeds), "expect": plain(got), "parameters": step.Parameters}
			text, err := json.Marshal(record)
			if err != nil {
				t.Fatal(err)
			}
			write := func(suffix string, data []byte) {
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d-%s%s", i, c.op, suffix)), data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write(".json", text)
			for suffix, m := range map[string]*graph.Model{".onnx": b.m, ".step.onnx": step.Model} {
				im, err := onnx.Encode(m)
				if err != nil {
					t.Fatal(err)
				}
				data, err := im.Bytes()
				if err != nil {
					t.Fatal(err)
				}
				write(suffix, data)
			}
		})
	}
}

// plain is a form of tensors that JSON holds.
func plain(list map[string]*reference.Tensor) map[string]any {
	out := map[string]any{}
	for name, x := range list {
		v := any(x.F)
		if x.F == nil {
			v = x.I
		}
		out[name] = map[string]any{"type": fmt.Sprint(x.Type), "shape": append([]int{}, x.Shape...), "data": v}
	}
	return out
}
