package zoo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"

	"github.com/onnxmem/onnxmem/internal/batch"
)

// Journal is the name of the file in OUT with a line for each model.
const Journal = "journal.jsonl"

// concludeFn writes journal.jsonl, results.csv and index.html for all models.
type concludeFn struct {
	Zoo   Zoo
	files files
}

// Teardown closes the file systems.
func (f *concludeFn) Teardown() { f.files.close() }

// ProcessElement receives all outcomes and writes the files.
func (f *concludeFn) ProcessElement(ctx context.Context, _ int, outcomes func(*outcome) bool) error {
	var lines []string
	var o outcome
	for outcomes(&o) {
		lines = append(lines, o.Line)
	}
	t, err := f.Zoo.table(lines)
	if err != nil {
		return err
	}
	texts, err := t.Files()
	if err != nil {
		return err
	}
	texts[Journal] = []byte(strings.Join(lines, "\n") + "\n")
	for name, text := range texts {
		name = join(f.Zoo.Out, name)
		if err := f.files.write(ctx, name, bytes.NewReader(text)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// table makes the table from lines of the journal, which it sorts by model.
func (z Zoo) table(lines []string) (*batch.Table, error) {
	slices.Sort(lines) // the model is the first field
	entries := make([]batch.Entry, len(lines))
	for i, line := range lines {
		if err := json.Unmarshal([]byte(line), &entries[i]); err != nil {
			return nil, fmt.Errorf("%s: line %d is not a journal entry: %w", Journal, i+1, err)
		}
	}
	return batch.NewTable(entries, z.Reports)
}

// Table reads the journal that the pipeline wrote.
func (z Zoo) Table(ctx context.Context) (*batch.Table, error) {
	var f files
	defer f.close()
	name := join(z.Out, Journal)
	text, err := f.read(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return z.table(strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"))
}

// Ran returns the number of models that a run of the pipeline planned, by the runner's
// counters.
func Ran(r beam.PipelineResult) int {
	if r == nil {
		return 0
	}
	n := 0
	found := r.Metrics().Query(func(m metrics.SingleResult) bool { return m.Namespace() == "onnxmem" && m.Name() == "ran" })
	for _, c := range found.Counters() {
		n += int(c.Result())
	}
	return n
}
