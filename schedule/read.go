package schedule

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/onnxmem/onnxmem/internal/strictjson"
)

const (
	// maxProblemBytes is the longest JSON that ReadProblem takes, after
	// decompression: some ten million nodes.
	maxProblemBytes = 1 << 30

	// A gzipped problem may inflate to freeBytes, and beyond that to maxRatio
	// times its size. Real ones inflate 5 to 30 times; gzip makes a thousandth of
	// a run of one byte, and a node of three bytes takes a hundred in memory.
	freeBytes = 4 << 20
	maxRatio  = 100
)

// ReadProblem reads a problem from JSON, gzipped or not (the first two bytes
// tell), and validates it. An error gives the byte or the node or tensor, not
// the file: the caller knows its name. Unknown fields are skipped; a key that stands
// twice in an object, or in another case, is refused.
func ReadProblem(r io.Reader) (*Problem, error) {
	packed := &counter{r: r}
	b := bufio.NewReader(packed)
	r = b
	if magic, _ := b.Peek(2); string(magic) == "\x1f\x8b" {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		r = &inflated{counter{r: z}, packed}
	}
	text, err := io.ReadAll(io.LimitReader(r, maxProblemBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxProblemBytes {
		return nil, fmt.Errorf("more than %d bytes of JSON", maxProblemBytes)
	}
	var p Problem
	if err := strictjson.Unmarshal(text, &p); err != nil {
		return nil, err
	}
	if p.Nodes == nil {
		return nil, errors.New(`nodes: missing: expected a scheduling problem {"nodes": [...], "tensors": [...]}`)
	}
	return &p, p.Validate()
}

// counter counts the bytes that are read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// inflated reads what was packed, and stops when that is too little for it.
type inflated struct {
	counter
	packed *counter
}

func (f *inflated) Read(b []byte) (int, error) {
	n, err := f.counter.Read(b)
	switch {
	case f.n > max(freeBytes, maxRatio*f.packed.n):
		return n, fmt.Errorf("gzip: %d bytes inflate to more than %d times as many: that is no problem", f.packed.n, maxRatio)
	case err != nil && err != io.EOF:
		return n, fmt.Errorf("gzip: %w", err)
	}
	return n, err
}
