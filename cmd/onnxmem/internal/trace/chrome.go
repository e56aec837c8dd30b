package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/internal/strictjson"
)

// chromeEvent is an event of a Chrome trace, as far as it is read.
type chromeEvent struct {
	Name string          `json:"name"`
	Cat  json.RawMessage `json:"cat"`
	Time json.Number     `json:"ts"`
	Args json.RawMessage `json:"args"`
}

// chromeMemory is the arguments of an event [memory] of PyTorch's profiler: Bytes is
// negative for a free.
type chromeMemory struct {
	Addr   *int64 `json:"Addr"`
	Bytes  *int64 `json:"Bytes"`
	Type   *int64 `json:"Device Type"`
	Device *int64 `json:"Device Id"`
}

// stepName begins the names of the profiler's steps.
const stepName = "ProfilerStep#"

// memoryEvent is one such event.
type memoryEvent struct {
	time        float64 // microseconds
	addr, bytes int64
}

// readChrome reads a Chrome trace: a list of events, or an object with the list
// traceEvents. Of its events it takes those named [memory], in the order of their
// times, as PyTorch's profiler writes them with profile_memory=True. Where it writes
// the begin of a step (profiler.step), a run begins.
func readChrome(r *bufio.Reader, opt Options) (*Trace, error) {
	in := &counting{r: r}
	c := chromeReader{d: json.NewDecoder(in), devices: map[string][]memoryEvent{}}
	if err := c.read(); err != nil {
		var refused *Error
		switch {
		case in.err != nil: // of the reader
			return nil, in.err
		case errors.As(err, &refused):
			return nil, err
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			err = errors.New("the JSON text ends early (truncated?)")
		}
		return nil, &Error{Offset: c.d.InputOffset(), Err: err}
	}
	if !c.found {
		return nil, &Error{Offset: -1, Err: errors.New(`expected JSON lines of {"alloc", "size"} and {"free"}, or a Chrome trace with a list traceEvents, found neither`)}
	}
	device, err := pick(c.names, opt)
	if err != nil {
		return nil, err
	}
	events := c.devices[device]
	slices.SortStableFunc(events, func(a, b memoryEvent) int { return cmp.Compare(a.time, b.time) })
	slices.Sort(c.steps)
	marks := c.steps
	b := newBuilder[int64](false)
	b.trace.Format, b.trace.Alignment = "Chrome trace, "+device, 64
	if device != "cpu" {
		b.trace.Alignment = cudaAlignment
	}
	for _, e := range events {
		for ; len(marks) > 0 && marks[0] <= e.time; marks = marks[1:] {
			b.mark()
		}
		switch {
		case e.bytes > 0:
			err = b.alloc(e.addr, e.bytes, 0)
		case e.bytes < 0:
			err = b.free(e.addr, -e.bytes, 0)
		}
		if err != nil {
			return nil, &Error{Offset: -1, Err: fmt.Errorf("event at %v µs: %w", e.time, err)}
		}
	}
	return &b.trace, nil
}

// chromeReader is the state of reading a Chrome trace.
type chromeReader struct {
	d       *json.Decoder
	found   bool // a list of events
	names   []string
	devices map[string][]memoryEvent
	steps   []float64 // the times at which steps begin
	count   int
}

// read reads the text as a stream, one event at a time.
func (c *chromeReader) read() error {
	start, err := c.d.Token()
	if err != nil {
		return err
	}
	if start == json.Delim('[') {
		return cmp.Or(c.list(), c.ended())
	}
	for c.d.More() {
		key, err := c.d.Token()
		if err != nil {
			return err
		}
		if key != "traceEvents" {
			if err := c.skip(); err != nil {
				return err
			}
			continue
		}
		if c.found {
			return errors.New("key \"traceEvents\" occurs twice")
		}
		if open, err := c.d.Token(); err != nil {
			return err
		} else if open != json.Delim('[') {
			return errors.New("traceEvents: expected a list")
		}
		if err := c.list(); err != nil {
			return err
		}
	}
	_, err = c.d.Token()
	return cmp.Or(err, c.ended())
}

// ended fails if something follows.
func (c *chromeReader) ended() error {
	if _, err := c.d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("expected the end of the text")
	}
	return nil
}

// skip skips one value, without holding it.
func (c *chromeReader) skip() error {
	depth := 0
	for {
		t, err := c.d.Token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('['), json.Delim('{'):
			depth++
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// list reads the events of a list up to its end.
func (c *chromeReader) list() error {
	c.found = true
	for c.d.More() {
		var text json.RawMessage
		if err := c.d.Decode(&text); err != nil {
			return err
		}
		if !bytes.Contains(text, []byte("[memory]")) && !bytes.Contains(text, []byte(stepName)) {
			continue
		}
		if err := c.event(text); err != nil {
			return jsonFault(err, 0, c.d.InputOffset()-int64(len(text)))
		}
	}
	_, err := c.d.Token()
	return err
}

// event reads one event.
func (c *chromeReader) event(text json.RawMessage) error {
	var e chromeEvent
	if err := strictjson.Unmarshal(text, &e); err != nil {
		return err
	}
	if strings.HasPrefix(e.Name, stepName) && string(e.Cat) == `"user_annotation"` {
		time, err := e.Time.Float64()
		if err != nil || math.IsInf(time, 0) || len(c.steps) == mostEvents {
			return errors.New(stepName + ": ts: expected a number")
		}
		c.steps = append(c.steps, time)
		return nil
	}
	if e.Name != "[memory]" {
		return nil
	}
	var m chromeMemory
	if e.Args == nil {
		return errors.New("[memory]: args: expected an object, found none")
	}
	if err := json.Unmarshal(e.Args, &m); err != nil { // strictjson has seen it
		return errors.New("[memory]: args: expected an object with whole numbers below 2^63")
	}
	time, err := e.Time.Float64()
	switch {
	case err != nil || math.IsInf(time, 0):
		return errors.New("[memory]: ts: expected a number")
	case m.Addr == nil || m.Bytes == nil || *m.Bytes == math.MinInt64:
		return errors.New("[memory]: args: expected Addr and Bytes, whole numbers")
	case c.count == mostEvents:
		return tooMany()
	}
	c.count++
	device := "cpu"
	if m.Type != nil && *m.Type != 0 {
		device = fmt.Sprintf("device%d", *m.Type)
		if *m.Type == 1 {
			device = "cuda"
		}
		if m.Device != nil {
			device += fmt.Sprintf(":%d", *m.Device)
		}
	}
	if _, known := c.devices[device]; !known {
		c.names = append(c.names, device)
		slices.Sort(c.names)
	}
	c.devices[device] = append(c.devices[device], memoryEvent{time, *m.Addr, *m.Bytes})
	return nil
}

// counting keeps the error of a reader, to tell it from errors about the text.
type counting struct {
	r   io.Reader
	err error
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}
