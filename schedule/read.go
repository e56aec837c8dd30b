package schedule

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxProblemBytes is the longest JSON that ReadProblem takes, after
// decompression: some ten million nodes. It stops a small file that inflates
// without end.
const maxProblemBytes = 1 << 30

// ReadProblem reads a problem from JSON, gzipped or not (the first two bytes
// tell), and validates it. An error gives the byte or the node or tensor, not
// the file: the caller knows its name. Unknown fields are skipped.
func ReadProblem(r io.Reader) (*Problem, error) {
	b := bufio.NewReader(r)
	r = b
	if magic, _ := b.Peek(2); string(magic) == "\x1f\x8b" {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		r = z
	}
	text, err := io.ReadAll(io.LimitReader(r, maxProblemBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxProblemBytes {
		return nil, fmt.Errorf("more than %d bytes of JSON", maxProblemBytes)
	}
	var p Problem
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, jsonError(err)
	}
	if p.Nodes == nil {
		return nil, errors.New(`nodes: missing: expected a scheduling problem {"nodes": [...], "tensors": [...]}`)
	}
	return &p, p.Validate()
}

// jsonError puts the byte offset in front, where the parser knows it.
func jsonError(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("byte %d: %w", syntax.Offset, err)
	}
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) {
		return fmt.Errorf("byte %d: %s", typ.Offset, typeError(typ))
	}
	return err
}
