package optimize

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
)

// mostBatch is the largest batch that the search tries.
const mostBatch = 1 << 20

// MaxBatch returns the largest length of a dimension for which a plan fits the
// job's limit with at most extra per cent of extra time. If dim is "", it is the
// dimension named batch, or else the first axis of the first input. The search
// assumes that a length fits if a larger one does: it doubles the length, then
// bisects. It plans with the least effort, except for the last plan, and writes
// nothing. If not even length 1 fits, the error is a *passes.LimitError, or one
// about the extra time.
func (j Job) MaxBatch(dim string, extra float64) (name string, length int64, err error) {
	if j.Limit == nil || j.Limit.Percent > 0 {
		return "", 0, &UsageError{"--max-batch: expected --limit with a number of bytes"}
	}
	if name, err = j.batchDim(dim); err != nil {
		return name, 0, err
	}
	fits, above := int64(0), int64(1)
	for above <= mostBatch {
		if err := j.tryBatch(name, above, "fast", extra); err != nil {
			if fits == 0 || !errors.As(err, new(*doesNotFit)) {
				return name, 0, unwrapFit(err)
			}
			break
		}
		fits, above = above, 2*above
	}
	for above-fits > 1 {
		middle := fits + (above-fits)/2
		switch err := j.tryBatch(name, middle, "fast", extra); {
		case err == nil:
			fits = middle
		case errors.As(err, new(*doesNotFit)):
			above = middle
		default:
			return name, 0, err
		}
	}
	for j.Effort != "fast" && fits > 0 {
		err := j.tryBatch(name, fits, j.Effort, extra)
		if err == nil {
			break
		}
		if !errors.As(err, new(*doesNotFit)) || fits == 1 {
			return name, 0, unwrapFit(err)
		}
		fits--
	}
	return name, fits, nil
}

// doesNotFit reports that a length is too large.
type doesNotFit struct{ error }

func (e *doesNotFit) Unwrap() error { return e.error }

func unwrapFit(err error) error {
	var e *doesNotFit
	if errors.As(err, &e) {
		return e.error
	}
	return err
}

// tryBatch plans the job's model with one length of a dimension.
func (j Job) tryBatch(name string, length int64, effort string, extra float64) error {
	f, err := onnx.Open(j.In, onnx.ReadOptions{AllowMissingWeights: j.AllowMissingWeights})
	if err != nil {
		return err
	}
	defer f.Close()
	j.Dim, j.Effort, j.Frontier = j.Dim.With(name, length), effort, false
	opt, err := (&Task{Job: j}).Options()
	if err != nil {
		return err
	}
	opt.NoVerify = true // only the last plan is handed out
	opt.ExtraPercent = extra
	_, err = passes.Optimize(context.Background(), f.Model, opt)
	var limit *passes.LimitError
	var slow *passes.ExtraError
	switch {
	case errors.As(err, &limit):
		return &doesNotFit{err}
	case errors.As(err, &slow):
		return &doesNotFit{fmt.Errorf("%s=%d: %w", name, length, err)}
	case err != nil:
		return fmt.Errorf("%s=%d: %w", name, length, err)
	}
	return nil
}

// batchDim is BatchDim of the job's model.
func (j Job) batchDim(name string) (string, error) {
	f, err := onnx.Open(j.In, onnx.ReadOptions{AllowMissingWeights: true})
	if err != nil {
		return "", err
	}
	defer f.Close()
	return BatchDim(f.Model, name)
}

// BatchDim finds the symbolic dimension that is the batch: the one that is named or, without a name,
// as MaxBatch says.
func BatchDim(m *graph.Model, name string) (string, error) {
	var symbols []string
	first := ""
	for i, t := range m.Graph.Inputs {
		in := m.Graph.Tensors[t]
		if in.Declared == nil {
			continue
		}
		for k, d := range in.Declared.Type.Shape {
			symbol := ""
			if k < len(in.Declared.Symbols) {
				symbol = in.Declared.Symbols[k]
			}
			if symbol == "?" { // each is a dimension of its own
				symbol = ""
			}
			if symbol == "" && d == graph.Unknown {
				symbol = fmt.Sprintf("%s[%d]", in.Name, k)
			}
			if symbol == "" {
				continue
			}
			symbols = append(symbols, symbol)
			if i == 0 && k == 0 {
				first = symbol
			}
		}
	}
	switch {
	case name != "" && slices.Contains(symbols, name):
		return name, nil
	case name == "" && slices.Contains(symbols, "batch"):
		return "batch", nil
	case name == "" && first != "":
		return first, nil
	}
	expected := "a model whose first input has a symbolic first axis"
	if len(symbols) > 0 {
		slices.Sort(symbols)
		expected = fmt.Sprintf("one of %q with --batch-dim", slices.Compact(symbols))
	}
	return "", &UsageError{fmt.Sprintf("--max-batch: no dimension is the batch: expected %s", expected)}
}
