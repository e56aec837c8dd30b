package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/onnxmem/onnxmem/internal/strictjson"
)

// HeadBytes is the number of bytes by which Read recognises a format. The reader that
// it is given must be able to peek that many.
const HeadBytes = 64 << 10

// Options say which part of a recording to read.
type Options struct {
	// Device is the device whose memory is wanted, such as cuda:0 or cpu; empty: the
	// only one that has events.
	Device string
}

// Read reads a recording and recognises its format by content: a pickle begins with
// the byte 0x80, JSON with { or [, all else is CSV. JSON lines are told from Chrome
// traces by the first key. An error about the content is an *Error. It takes time and
// memory proportional to the text.
func Read(r *bufio.Reader, opt Options) (*Trace, error) {
	head, _ := r.Peek(HeadBytes)
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\ufeff")), " \t\r\n")
	var t *Trace
	var err error
	switch {
	case len(head) == 0:
		return nil, &Error{Offset: -1, Err: errors.New("expected a recording of allocations, found nothing")}
	case head[0] == pickleProto:
		t, err = readSnapshot(r, opt)
	case len(text) > 0 && (text[0] == '[' || text[0] == '{' && !isLine(text)):
		t, err = readChrome(r, opt)
	case len(text) > 0 && text[0] == '{':
		t, err = readLines(r)
	case !isCSV(text):
		return nil, &Error{Offset: -1, Err: fmt.Errorf("expected a recording: JSON lines, a memory snapshot of PyTorch, a Chrome trace or CSV, found %.32q", head)}
	default:
		t, err = readCSV(r)
	}
	if err != nil {
		return nil, err
	}
	if len(t.Events) == 0 {
		return nil, &Error{Offset: -1, Err: fmt.Errorf("%s: expected at least one allocation or free, found none", t.Format)}
	}
	return t, nil
}

// isLine reports whether a text begins with an object of JSON lines.
func isLine(text []byte) bool {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return false
	}
	key, _ := d.Token()
	switch key {
	case "alloc", "free", "mark", "size", "stream", "alignment":
		return true
	}
	return false
}

// isCSV reports whether the first line could be a header: printable, with a comma.
func isCSV(text []byte) bool {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return bytes.ContainsRune(line, ',') && !bytes.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' && r != '\r' || r == utf8.RuneError })
}

// pick returns the device to read: the one that is asked for, or the only one.
func pick(devices []string, opt Options) (string, error) {
	switch {
	case opt.Device != "":
		for _, d := range devices {
			if d == opt.Device {
				return d, nil
			}
		}
		return "", &Error{Offset: -1, Err: fmt.Errorf("device %q: expected one with events, which are %s", opt.Device, joined(devices))}
	case len(devices) == 1:
		return devices[0], nil
	case len(devices) == 0:
		return "", &Error{Offset: -1, Err: errors.New("expected events of memory, found none: was the recording of memory turned on?")}
	}
	return "", &Error{Offset: -1, Err: fmt.Errorf("%d devices have events: choose one with --trace-device: %s", len(devices), joined(devices))}
}

func joined(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	const most = 8
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// jsonFault turns an error about JSON into one with its place in the file: base is the
// offset of the text.
func jsonFault(err error, line int, base int64) error {
	if fault := (*strictjson.Error)(nil); errors.As(err, &fault) {
		what := fault.What
		if fault.Where != "" {
			what = fault.Where + ": " + what
		}
		return &Error{Line: line, Offset: base + fault.Offset, Err: errors.New(what)}
	}
	return &Error{Line: line, Offset: base, Err: err}
}
