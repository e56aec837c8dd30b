package report

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/report/internal/samples"
)

// TestCHeaderOperands: compiled, the table of steps names what each node of the planned
// model reads and writes, a body's captures among it, and each tensor's macro is the pool
// in which it lies. Without the model, a comment says that the operands are missing.
func TestCHeaderOperands(t *testing.T) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc: the header is not compiled")
	}
	for name, c := range map[string]struct {
		model func(t *testing.T) *graph.Model
		opt   passes.Options
	}{
		"a body":   {branching, passes.Options{Dims: map[string]int64{"batch": 2, "time": 4}}},
		"pools":    {branching, passes.Options{Dims: map[string]int64{"batch": 2, "time": 4}, Pools: []passes.Pool{{Name: "fast", Capacity: 1024}, {Name: "slow", Capacity: 1 << 20}}}},
		"in parts": {joining, passes.Options{Dims: map[string]int64{"height": 4, "width": 16}, Aliases: passes.AliasesOn}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := passes.Optimize(t.Context(), c.model(t), c.opt)
			if err != nil {
				t.Fatal(err)
			}
			p, g := r.Plan, r.Model.Graph
			p.Model.File = "plan.onnx"
			var header, want strings.Builder
			if err := CHeaderOf(&header, p, r.Model, nil); err != nil {
				t.Fatal(err)
			}
			program := `#define PLAN_DEFINE_TABLES
#include "plan.h"
#include <stdio.h>
int main(void) {
	for (unsigned long i = 0; i < PLAN_STEPS; i++) {
		const struct plan_step *s = &plan_steps[i];
		printf("%s: %lu:", s->op, s->inputs);
		for (unsigned long k = 0; k < s->inputs + s->outputs; k++)
			printf(" %s", s->operands[k] == PLAN_NONE ? "-" : plan_tensors[s->operands[k]].name);
		printf("\n");
	}
	for (unsigned long i = 0; i < PLAN_TENSORS; i++) printf("%s %lu\n", plan_tensors[i].pool, plan_tensors[i].pool_index);
`
			for _, n := range g.Nodes {
				inputs := append(append([]graph.TensorID{}, n.Inputs...), n.Captures...)
				fmt.Fprintf(&want, "%s: %d:", plan.OpName(n), len(inputs))
				for _, x := range append(inputs, n.Outputs...) {
					fmt.Fprintf(&want, " %s", g.Tensors[x].Name)
				}
				fmt.Fprintln(&want)
			}
			pool := func(b *plan.Buffer) int {
				for i := range p.Pools {
					if p.Pools[i].Name == b.Pool {
						return i
					}
				}
				t.Fatalf("no pool %q", b.Pool)
				return -1
			}
			var in []string // the macros' values
			list := func(b *plan.Buffer, names []string) {
				for range max(1, len(names)) {
					fmt.Fprintf(&want, "%s %d\n", b.Pool, pool(b))
				}
				for _, n := range names {
					program += fmt.Sprintf("\tprintf(\"%%lu\\n\", PLAN_IN_%s);\n", identifier(n))
					in = append(in, fmt.Sprintln(pool(b)))
				}
			}
			for i := range p.Buffers {
				list(&p.Buffers[i], p.Buffers[i].Tensors)
			}
			for i := range p.Spans {
				b := p.Whole(i)
				list(&b, b.Tensors)
			}
			want.WriteString(strings.Join(in, ""))
			program += "\treturn 0;\n}\n"
			dir := t.TempDir()
			for file, text := range map[string]string{"plan.h": header.String(), "main.c": program} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			exe := filepath.Join(dir, "plan")
			if out, err := exec.Command(cc, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-o", exe, filepath.Join(dir, "main.c")).CombinedOutput(); err != nil {
				t.Fatalf("%v:\n%.2000s", err, out)
			}
			got, err := exec.Command(exe).Output()
			if err != nil || string(got) != want.String() {
				t.Errorf("%v: the program prints\n%.2000s\nexpected\n%.2000s", err, got, want.String())
			}
			if alone := export(t, "c-header", p); !bytes.Contains(alone, []byte("outputs of the steps are missing")) || strings.Contains(header.String(), "are missing") {
				t.Error("expected a comment about the operands in the header of the plan alone, and only there")
			}
			r.Model.Graph.Nodes = r.Model.Graph.Nodes[1:]
			if err := CHeaderOf(&header, p, r.Model, nil); err == nil || !strings.Contains(err.Error(), "not the model of this plan") {
				t.Errorf("another model: found %v", err)
			}
		})
	}
}

// TestCHeaderSaysCuts: a comment says which names the macros do not hold whole.
func TestCHeaderSaysCuts(t *testing.T) {
	p := samples.Lanes(t, 3, 4)
	long := "/model/layers.0/self_attention/query_projection/MatMul_output_0"
	p.Buffers = p.Buffers[:2]
	p.Buffers[0].Tensors, p.Buffers[1].Tensors, p.Model.File = []string{long}, []string{"short"}, "a_detector_of_many_things.onnx"
	text := string(export(t, "c-header", p))
	for _, want := range []string{
		`A_DETECTOR_OF_MA is the beginning of "a_detector_of_many_things".`, `"` + long + `" (cut in the macros)`,
	} {
		if strings.Count(text, want) != 1 {
			t.Errorf("expected one %s in\n%.1500s", want, text)
		}
	}
	if n := strings.Count(text, "(cut in the macros)"); n != 1 {
		t.Errorf("%d names are called cut, expected 1", n)
	}
}
