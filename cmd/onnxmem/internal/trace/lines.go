package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/onnxmem/onnxmem/internal/strictjson"
)

// maxLine bounds the memory of a line.
const maxLine = 1 << 20 // bytes

// line is a line of JSON lines. Fields that others add are skipped.
type line struct {
	Alloc  json.RawMessage `json:"alloc"`
	Free   json.RawMessage `json:"free"`
	Mark   json.RawMessage `json:"mark"`
	Size   json.RawMessage `json:"size"`
	Stream json.RawMessage `json:"stream"`
	Offset json.RawMessage `json:"offset"`

	Alignment json.RawMessage `json:"alignment"`
}

// readLines reads onnxmem's own recordings: one object in each line,
// {"alloc": ID, "size": BYTES, "stream": 0}, {"free": ID} or {"mark": "run"}, which
// stands before the first event of each run. An id is a whole number or a string; it
// may be used again when it is free. An allocation may have an "offset", where the block
// lay in the arena of the recording. {"alignment": BYTES} says what its sizes and offsets
// are rounded up to.
func readLines(r *bufio.Reader) (*Trace, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	b := newBuilder[string](true)
	b.trace.Format, b.trace.Alignment = "JSON lines", 64
	n := 0
	for lines.Scan() {
		n++
		text := lines.Bytes()
		if n == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
		}
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		l, ok := quick(text)
		if !ok {
			if err := strictjson.Unmarshal(text, &l); err != nil {
				if lines.Err() != nil {
					break // the line was cut off by it
				}
				return nil, jsonFault(err, n, 0)
			}
		}
		if err := addLine(b, &l); err != nil {
			return nil, &Error{Line: n, Err: err}
		}
	}
	if err := lineError(lines, n); err != nil {
		return nil, err
	}
	return &b.trace, nil
}

// lineError returns the error that ended the reading of lines after n of them.
func lineError(lines *bufio.Scanner, n int) error {
	err := lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		return &Error{Line: n + 1, Err: fmt.Errorf("expected at most %d bytes in a line", maxLine)}
	}
	return err
}

// quick parses a flat object of the keys above with whole numbers and plain strings as
// values, each key at most once; all other lines are left to strictjson. Reading takes
// a third of the processor time with it (BenchmarkRead).
func quick(text []byte) (l line, ok bool) {
	if text[0] != '{' || text[len(text)-1] != '}' {
		return l, false
	}
	rest := text[1 : len(text)-1]
	for {
		rest = bytes.TrimLeft(rest, " ")
		key, after := token(rest)
		if len(key) < 2 || key[0] != '"' {
			return l, false
		}
		if rest = bytes.TrimLeft(after, " "); len(rest) == 0 || rest[0] != ':' {
			return l, false
		}
		value, after := token(bytes.TrimLeft(rest[1:], " "))
		if value == nil {
			return l, false
		}
		var field *json.RawMessage
		switch string(key) {
		case `"alloc"`:
			field = &l.Alloc
		case `"free"`:
			field = &l.Free
		case `"mark"`:
			field = &l.Mark
		case `"size"`:
			field = &l.Size
		case `"stream"`:
			field = &l.Stream
		case `"offset"`:
			field = &l.Offset
		case `"alignment"`:
			field = &l.Alignment
		}
		if field == nil || *field != nil {
			return l, false
		}
		*field = value
		if rest = bytes.TrimLeft(after, " "); len(rest) == 0 {
			return l, true
		}
		if rest[0] != ',' {
			return l, false
		}
		rest = rest[1:]
	}
}

// token returns the whole number or the string of plain ASCII at the begin of a text;
// nil if there is another value.
func token(text []byte) (value, rest []byte) {
	if len(text) == 0 {
		return nil, nil
	}
	if text[0] == '"' {
		for i := 1; i < len(text); i++ {
			switch c := text[i]; {
			case c == '"':
				return text[:i+1], text[i+1:]
			case c < ' ' || c > '~' || c == '\\':
				return nil, nil
			}
		}
		return nil, nil
	}
	i := 0
	for i < len(text) && text[i] >= '0' && text[i] <= '9' {
		i++
	}
	if i == 0 || i > 18 || i > 1 && text[0] == '0' {
		return nil, nil
	}
	return text[:i], text[i:]
}

// addLine adds the event of a line.
func addLine(b *builder[string], l *line) error {
	ids := 0
	for _, id := range []json.RawMessage{l.Alloc, l.Free, l.Mark} {
		if id != nil {
			ids++
		}
	}
	switch {
	case ids == 0 && l.Alignment != nil:
		n, err := whole("alignment", l.Alignment, -1)
		if err == nil && (n < 1 || n > maxAlignment) {
			err = fmt.Errorf("alignment: expected 1 to %d bytes, found %d", maxAlignment, n)
		}
		b.trace.Alignment = n
		return err
	case ids != 1:
		return fmt.Errorf(`expected one of "alloc", "free" and "mark", found %d`, ids)
	case l.Alloc == nil && l.Size != nil:
		return errors.New(`size: expected none without "alloc"`)
	case l.Mark != nil:
		var text string
		if json.Unmarshal(l.Mark, &text) != nil {
			return fmt.Errorf("mark: expected a string, found %.64s", l.Mark)
		}
		if text == "run" {
			b.mark()
		}
		return nil
	}
	if l.Free != nil {
		id, err := idOf("free", l.Free)
		if err != nil {
			return err
		}
		return b.free(id, 0, 0)
	}
	id, err := idOf("alloc", l.Alloc)
	if err != nil {
		return err
	}
	size, err := whole("size", l.Size, -1)
	if err != nil {
		return err
	}
	stream, err := whole("stream", l.Stream, 0)
	if err != nil {
		return err
	}
	if err := b.alloc(id, size, stream); err != nil || l.Offset == nil {
		return err
	}
	offset, err := whole("offset", l.Offset, -1)
	if err != nil {
		return err
	}
	if offset > math.MaxInt64/4 {
		return fmt.Errorf("offset: expected at most %d, found %d", int64(math.MaxInt64/4), offset)
	}
	if b.trace.Offsets == nil {
		b.trace.Offsets = map[int32]int64{}
	}
	b.trace.Offsets[int32(len(b.trace.Blocks)-1)] = offset
	return nil
}

// idOf returns an id as it stands in the text: "1" and 1 are two ids.
func idOf(field string, text json.RawMessage) (string, error) {
	if text[0] == '"' {
		if len(text) > maxID {
			return "", fmt.Errorf("%s: expected an id of at most %d bytes, found %d", field, maxID, len(text))
		}
		return string(text), nil
	}
	if _, err := whole(field, text, 0); err != nil {
		return "", fmt.Errorf("%s: expected a whole number or a string, found %.64s", field, text)
	}
	return string(text), nil
}

// maxAlignment is the largest alignment of a recording, in bytes.
const maxAlignment = 1 << 21

// maxID is the longest id, in bytes.
const maxID = 256

// whole reads a whole number of at least 0. Without a text it is missing; -1: required.
func whole(field string, text json.RawMessage, missing int64) (int64, error) {
	if text == nil && missing >= 0 {
		return missing, nil
	}
	if text == nil {
		return 0, fmt.Errorf("%s: expected a whole number, found none", field)
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s: expected a whole number from 0 to 2^63 - 1, found %.64s", field, text)
	}
	return n, nil
}
