package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/alloc"
)

// readCSV reads a CSV: of events, with the columns event and id, and size and stream
// in any order, or of lifetimes, as alloc.ReadCSV does. An event is alloc, free, or
// mark, whose id is then the text of the mark.
func readCSV(r *bufio.Reader) (*Trace, error) {
	head, _ := r.Peek(HeadBytes)
	first, _, _ := bytes.Cut(bytes.TrimPrefix(head, []byte("\ufeff")), []byte("\n"))
	if names := strings.Split(string(first), ","); !slices.ContainsFunc(names, func(name string) bool { return strings.TrimSpace(name) == "event" }) {
		return readLifetimes(r)
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	b := newBuilder[string](true)
	b.trace.Format, b.trace.Alignment = "CSV of events", 64
	var columns map[string]int
	width, n := 0, 0
	for lines.Scan() {
		n++
		text := strings.TrimSpace(lines.Text())
		if n == 1 {
			text = strings.TrimPrefix(text, "\ufeff")
		}
		if text == "" {
			continue
		}
		fields := strings.Split(text, ",")
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		var err error
		switch {
		case columns == nil:
			width = len(fields)
			columns, err = eventColumns(fields)
		case len(fields) != width:
			err = fmt.Errorf("expected %d fields, found %d", width, len(fields))
		default:
			err = addFields(b, columns, fields)
		}
		if err != nil {
			if failed := lines.Err(); failed != nil {
				return nil, failed // the line was cut off by it
			}
			return nil, &Error{Line: n, Err: err}
		}
	}
	if err := lineError(lines, n); err != nil {
		return nil, err
	}
	return &b.trace, nil
}

// eventColumns reads a header of events.
func eventColumns(fields []string) (map[string]int, error) {
	columns := map[string]int{}
	for i, name := range fields {
		if _, twice := columns[name]; twice {
			return nil, fmt.Errorf("column %.64q occurs twice", name)
		}
		if name != "event" && name != "id" && name != "size" && name != "stream" {
			return nil, fmt.Errorf("column %.64q: unknown: expected event, id, size or stream", name)
		}
		columns[name] = i
	}
	for _, name := range []string{"event", "id", "size"} {
		if _, ok := columns[name]; !ok {
			return nil, fmt.Errorf("expected a column %q, found none", name)
		}
	}
	return columns, nil
}

// addFields adds the event of a line of CSV.
func addFields(b *builder[string], columns map[string]int, fields []string) error {
	id := fields[columns["id"]]
	field := func(name string) []byte {
		if i, ok := columns[name]; ok && fields[i] != "" {
			return []byte(fields[i])
		}
		return nil
	}
	if len(id) > maxID {
		return fmt.Errorf(`column "id": expected at most %d bytes, found %d`, maxID, len(id))
	}
	switch event := fields[columns["event"]]; event {
	case "alloc":
		size, err := whole(`column "size"`, field("size"), -1)
		if err != nil {
			return err
		}
		stream, err := whole(`column "stream"`, field("stream"), 0)
		if err != nil {
			return err
		}
		return b.alloc(id, size, stream)
	case "free":
		return b.free(id, 0, 0)
	case "mark":
		if id == "run" {
			b.mark()
		}
		return nil
	default:
		return fmt.Errorf(`column "event": expected alloc, free or mark, found %.64q`, event)
	}
}

// readLifetimes reads a CSV of lifetimes as the stream in which, at each step, the
// buffers are freed that ended before it, then those are allocated that begin.
func readLifetimes(r *bufio.Reader) (*Trace, error) {
	p, err := alloc.ReadCSV(r)
	if err != nil {
		if at := (*alloc.CSVError)(nil); errors.As(err, &at) {
			return nil, &Error{Offset: -1, Err: err}
		}
		return nil, err
	}
	t := &Trace{Format: "CSV of lifetimes", Alignment: 64, Blocks: make([]Block, len(p.Buffers))}
	type end struct {
		step int // before which it happens; a last step may be the largest int
		free bool
		b    int32
	}
	var ends []end
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if b.Fixed != nil || b.Hint != nil || len(b.Gaps) > 0 || b.Align > 0 {
			return nil, &Error{Offset: -1, Err: fmt.Errorf("buffer %d %.64q: a recording has no offsets, hints, gaps and alignments: expected the columns id, lower, upper and size (pack without --trace takes the others)", i, b.ID)}
		}
		t.Blocks[i] = Block{Size: b.Size}
		ends = append(ends, end{b.First, false, int32(i)}, end{b.Last, true, int32(i)})
	}
	if len(ends) > mostEvents {
		return nil, &Error{Offset: -1, Err: tooMany()}
	}
	slices.SortStableFunc(ends, func(a, b end) int {
		return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(order(a.free), order(b.free)))
	})
	for i, e := range ends {
		t.Events = append(t.Events, Event{e.b, e.free})
		if e.free {
			t.Blocks[e.b].Free = i
		} else {
			t.Blocks[e.b].Alloc = i
		}
	}
	return t, nil
}

// order puts the allocations of a step before the frees after it.
func order(free bool) int {
	if free {
		return 1
	}
	return 0
}
