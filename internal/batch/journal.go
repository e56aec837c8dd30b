package batch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/onnxmem/onnxmem/internal/lockfile"
	"github.com/onnxmem/onnxmem/internal/printable"
	"github.com/onnxmem/onnxmem/internal/readable"
	"github.com/onnxmem/onnxmem/internal/strictjson"
)

// The values of Entry.Status.
const (
	StatusOK      = "ok"
	StatusFailed  = "failed"   // a limit was not met, or planning failed
	StatusRefused = "refused"  // the model was refused
	StatusTimeout = "time-out" // it took longer than allowed
)

// Entry is one line of a journal: the result for a model.
type Entry struct {
	Model  string // Model.Rel: any bytes
	Key    string // digest of its content and the options
	Status string
	Error  string
	MS     float64
	// Result is what the work printed about the model, as JSON.
	Result json.RawMessage

	line int // line number in its journal, from 1; 0: none
}

// After reports whether an entry was added to a journal after another entry of
// the same model.
func (e Entry) After(other Entry) bool { return e.line > other.line }

// Message is the error on one line, without the name of the model's file, which tables and
// lines have beside it. A long name has no middle there.
func (e Entry) Message() string {
	text, name := printable.Escape(e.Error), printable.Escape(filepath.ToSlash(e.Model))
	path, rest, found := strings.Cut(text, ": ")
	if path = filepath.ToSlash(path); !found {
		return text
	}
	_, end, cut := strings.Cut(path, "…")
	if strings.HasSuffix(path, name) || cut && end != "" && strings.HasSuffix(name, end) {
		return rest
	}
	return text
}

// cutOff is the error of an entry that is added before the work on a model.
const cutOff = "the run that planned it was ended before that was done"

// Begun is the entry of a model whose results are about to be replaced: if the
// work is interrupted, the files there may not be those of the previous entry.
func Begun(model, key string) Entry {
	return Entry{Model: model, Key: key, Status: StatusFailed, Error: cutOff}
}

// Ended reports whether an entry is the result of finished work on a model.
func (e Entry) Ended() bool { return e.Error != cutOff }

// line is an entry in the form of the file.
type line struct {
	Model string `json:"model"`
	// Bytes is the model's path in Base64 if it is not UTF-8, which JSON cannot
	// hold. Model then shows such bytes as \xff, for people.
	Bytes  []byte          `json:"model_bytes,omitempty"`
	Key    string          `json:"key"`
	Status string          `json:"status"`
	Error  string          `json:"error,omitempty"`
	MS     float64         `json:"ms"`
	Result json.RawMessage `json:"result,omitempty"`
}

// MarshalJSON makes one line of a journal.
func (e Entry) MarshalJSON() ([]byte, error) {
	l := line{Model: e.Model, Key: e.Key, Status: e.Status, Error: printable.Escape(e.Error), MS: e.MS, Result: e.Result}
	if !utf8.ValidString(e.Model) {
		l.Model, l.Bytes = printable.Escape(e.Model), []byte(e.Model)
	}
	return json.Marshal(l)
}

// UnmarshalJSON reads one.
func (e *Entry) UnmarshalJSON(text []byte) error {
	var l line
	if err := strictjson.Unmarshal(text, &l); err != nil {
		return err
	}
	*e = Entry{Model: l.Model, Key: l.Key, Status: l.Status, Error: l.Error, MS: l.MS, Result: l.Result}
	if l.Bytes != nil {
		e.Model = string(l.Bytes)
	}
	return nil
}

// Journal is a file of entries, one JSON object per line, that only grows. The
// last entry of a model counts. Other processes may add entries: all reading and
// writing is done under a lock of the file, so an incomplete line was left by a
// process that has died.
type Journal struct {
	// NoLocks is set where the file system has no locks: no other run may use the file.
	NoLocks bool

	path    string
	mu      sync.Mutex
	f       *os.File
	last    map[string]Entry
	read    int64 // bytes of complete lines so far
	lines   int
	damaged int // lines that are not entries
}

// OpenJournal reads the journal at path, or creates it. An incomplete last line
// is removed; other lines that are not entries are ignored. It is an error if the
// file has lines, but none is an entry.
func OpenJournal(path string) (*Journal, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is %s, expected a journal", path, readable.Kind(info.Mode()))
	}
	j := &Journal{path: path}
	if err := j.open(); err != nil {
		return nil, err
	}
	if err := j.Refresh(); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	if len(j.last) == 0 && j.damaged > 0 {
		return nil, errors.Join(fmt.Errorf("%s: line 1 is not a journal entry: expected one JSON object with a model (remove the file to start again)", path), j.Close())
	}
	return j, nil
}

func (j *Journal) open() (err error) {
	j.begin()
	j.f, err = os.OpenFile(j.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	return err
}

// begin forgets what was read.
func (j *Journal) begin() { j.last, j.read, j.lines, j.damaged = map[string]Entry{}, 0, 0, 0 }

// Damaged is the number of lines that were ignored.
func (j *Journal) Damaged() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.damaged
}

// Last returns the newest entry of a model.
func (j *Journal) Last(model string) (Entry, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, ok := j.last[model]
	return e, ok
}

// Refresh reads the lines that others have added.
func (j *Journal) Refresh() error {
	return j.locked(func() error { return nil })
}

// Add writes an entry, in one piece.
func (j *Journal) Add(e Entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	text = append(bytes.ReplaceAll(text, []byte("\n"), nil), '\n')
	return j.locked(func() error {
		if _, err := j.f.Write(text); err != nil {
			return errors.Join(err, os.Truncate(j.path, j.read)) // the disk is full: leave no incomplete line
		}
		j.read += int64(len(text))
		j.lines++
		e.line = j.lines
		j.last[e.Model] = e
		return nil
	})
}

// With calls do with all entries, by model, while no other process can add any:
// files that do writes from them are not older than those of another run.
func (j *Journal) With(do func(entries map[string]Entry) error) error {
	return j.locked(func() error { return do(maps.Clone(j.last)) })
}

// locked calls do under the lock of the file, after reading all its lines.
func (j *Journal) locked(do func() error) (err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for {
		switch err := lockfile.Lock(j.f); {
		case errors.Is(err, errors.ErrUnsupported):
			j.NoLocks = true
		case err != nil:
			return err
		}
		if j.stands() {
			break
		}
		// The file was removed or replaced.
		j.f.Close()
		if err := j.open(); err != nil {
			return err
		}
	}
	if !j.NoLocks {
		defer func() { err = errors.Join(err, lockfile.Unlock(j.f)) }()
	}
	if err := j.readOn(); err != nil {
		return fmt.Errorf("%s: %w", j.path, err)
	}
	return do()
}

// stands reports whether the open file is still the one at the path.
func (j *Journal) stands() bool {
	there, errThere := os.Stat(j.path)
	here, errHere := j.f.Stat()
	return errThere == nil && errHere == nil && os.SameFile(there, here)
}

// readOn reads the new lines.
func (j *Journal) readOn() error {
	info, err := j.f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < j.read { // the file was shortened
		j.begin()
	}
	r := bufio.NewReader(io.NewSectionReader(j.f, j.read, info.Size()-j.read))
	for {
		text, err := r.ReadBytes('\n')
		switch {
		case err == nil:
			j.take(text)
		case !errors.Is(err, io.EOF):
			return err
		case len(text) > 0:
			return os.Truncate(j.path, j.read) // interrupted by a kill or a crash
		default:
			return nil
		}
	}
}

// take adds a complete line.
func (j *Journal) take(text []byte) {
	j.read += int64(len(text))
	j.lines++
	if len(bytes.TrimSpace(text)) == 0 {
		return
	}
	var e Entry
	if err := json.Unmarshal(text, &e); err != nil || e.Model == "" {
		j.damaged++
		return
	}
	e.line = j.lines
	j.last[e.Model] = e
}

// Close closes the file.
func (j *Journal) Close() error { return j.f.Close() }
