package report

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
)

// rangedPlan plans a small BERT for several lengths of two dimensions.
func rangedPlan(t *testing.T) *plan.Plan {
	t.Helper()
	m, err := models.Build("bert", models.Options{Set: map[string]string{"layers": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := passes.Optimize(t.Context(), m, passes.Options{Ranges: map[string]string{"batch": "1..3", "sequence": "1,2,3,7,64,512"}})
	if err != nil {
		t.Fatal(err)
	}
	r.Plan.Model.File = "bert.onnx"
	return r.Plan
}

// TestCHeaderRanges: compiled, the functions of the header give the arena and the places of
// the plan at every point, and refuse others; the buckets have the plans of their points.
func TestCHeaderRanges(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc: the header is not compiled")
	}
	p := rangedPlan(t)
	at := func(dims map[string]int64) (*plan.Plan, error) { return p.At(dims, nil) }
	buckets, err := p.Buckets(map[string][]int64{"sequence": {64, 512}, "batch": {1, 3}}, at)
	if err != nil {
		t.Fatal(err)
	}
	var header bytes.Buffer
	if err := CHeaderBuckets(&header, p, buckets); err != nil {
		t.Fatal(err)
	}
	program := `#define BERT_DEFINE_TABLES
#include "plan.h"
#include <stdio.h>
static void place(size_t batch, size_t sequence) {
	static size_t offsets[BERT_TENSORS], bytes[BERT_TENSORS];
	size_t i, bucket = bert_bucket(batch, sequence);
	for (i = 0; i < BERT_TENSORS; i++) offsets[i] = bytes[i] = 7;
	printf("%zu", bert_place(batch, sequence, offsets, bytes));
	for (i = 0; i < BERT_TENSORS; i++) printf(" %zu %zu", offsets[i], bytes[i]);
	printf(" %zu %zu %zu\n", bert_buckets[bucket].lengths[0], bert_buckets[bucket].lengths[1], bert_buckets[bucket].offsets[BERT_TENSORS - 1]);
}
int main(void) {
`
	var want strings.Builder
	names, lengths := p.Box()
	for _, batch := range lengths[0] {
		for _, sequence := range lengths[1] {
			program += fmt.Sprintf("\tplace(%d, %d);\n", batch, sequence)
			q, err := at(map[string]int64{names[0]: batch, names[1]: sequence})
			if err != nil {
				t.Fatal(err)
			}
			if err := q.Check(); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&want, "%d", q.Summary.ArenaBytes)
			for _, b := range q.Buffers {
				for range max(1, len(b.Tensors)) {
					if b.Pool == plan.Arena {
						fmt.Fprintf(&want, " %d %d", b.Offset, b.Bytes)
					} else {
						fmt.Fprint(&want, " 7 7")
					}
				}
			}
			for _, b := range buckets {
				if x, y := b.Dims[names[0]].Value, b.Dims[names[1]].Value; x >= batch && y >= sequence {
					fmt.Fprintf(&want, " %d %d %d\n", x, y, b.Buffers[len(b.Buffers)-1].Offset)
					break
				}
			}
		}
	}
	program += `	printf("%d %d %d\n", bert_arena_bytes(4, 64) == (size_t)-1, bert_arena_bytes(1, 4) == (size_t)-1, bert_arena_bytes(0, 64) == (size_t)-1);
	return 0;
}
`
	want.WriteString("1 1 1\n")
	for _, row := range p.Ranges.Table {
		if q, err := at(row.Dims); err != nil || q.Summary.ArenaBytes != row.ArenaBytes || q.Summary.PeakBytes != row.PeakBytes || q.Summary.LowerBoundBytes != row.LowerBoundBytes {
			t.Errorf("%v: expected the figures of the table, %+v, found %+v, %v", row.Dims, row, q.Summary, err)
		}
	}
	dir := t.TempDir()
	for file, text := range map[string]string{"plan.h": header.String(), "main.c": program} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	exe := filepath.Join(dir, "plan")
	if out, err := exec.Command(gcc, "-std=c99", "-Wall", "-Wextra", "-Werror", "-o", exe, filepath.Join(dir, "main.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%.2000s", err, out)
	}
	got, err := exec.Command(exe).Output()
	if err != nil || string(got) != want.String() {
		t.Errorf("%v: the program prints\n%.1000s\nexpected\n%.1000s", err, got, want.String())
	}
}

// TestFewestBuckets: no point of a bucket wastes more than was allowed, and the bounds of
// neighbouring buckets show that fewer would.
func TestFewestBuckets(t *testing.T) {
	m, err := models.Build("bert", models.Options{Set: map[string]string{"layers": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := passes.Optimize(t.Context(), m, passes.Options{Ranges: map[string]string{"sequence": "1..96"}})
	if err != nil {
		t.Fatal(err)
	}
	at := func(dims map[string]int64) (*plan.Plan, error) { return r.Plan.At(dims, nil) }
	arena := func(n int64) float64 {
		p, err := at(map[string]int64{"sequence": n})
		if err != nil {
			t.Fatal(err)
		}
		return float64(p.Summary.ArenaBytes)
	}
	buckets, worst, err := r.Plan.FewestBuckets(50, at)
	if err != nil || worst > 1.5 || len(buckets) < 2 {
		t.Fatalf("expected a few buckets with a ratio of at most 1.5, found %d, %f, %v", len(buckets), worst, err)
	}
	below := int64(0)
	for _, b := range buckets {
		top := b.Dims["sequence"].Value
		if got := arena(top) / arena(below+1); got > 1.5 {
			t.Errorf("%d to %d: ratio %f", below+1, top, got)
		}
		if below > 0 && arena(top)/arena(below) <= 1.5 {
			t.Errorf("%d to %d: the bucket could begin at %d", below+1, top, below)
		}
		below = top
	}
	if below != 96 {
		t.Errorf("expected the last bucket to end at 96, found %d", below)
	}
}
