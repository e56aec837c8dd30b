package batch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// The values of Entry.Status.
const (
	StatusOK      = "ok"
	StatusFailed  = "failed"   // a limit not met, or the work itself
	StatusRefused = "refused"  // the model
	StatusTimeout = "time-out" // it took longer than it may
)

// Entry is one line of a journal: what became of a model.
type Entry struct {
	Model  string  `json:"model"` // Model.Rel
	Key    string  `json:"key"`   // of its contents and the options
	Status string  `json:"status"`
	Error  string  `json:"error,omitempty"`
	MS     float64 `json:"ms"`
	// Result is what the work printed about the model, as JSON.
	Result json.RawMessage `json:"result,omitempty"`
}

// Journal is a file of entries, one JSON object a line, that only grows. Of
// several entries of a model the last counts.
type Journal struct {
	mu   sync.Mutex
	f    *os.File
	last map[string]Entry
}

// OpenJournal reads the journal at path, or begins one. A last line that was cut
// off, by a kill in the middle of writing it, is taken away; any other line that
// is none is an error.
func OpenJournal(path string) (*Journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	j := &Journal{f: f, last: map[string]Entry{}}
	if err := j.read(path); err != nil {
		f.Close()
		return nil, err
	}
	return j, nil
}

func (j *Journal) read(path string) error {
	r := bufio.NewReader(j.f)
	whole := int64(0)
	for line := 1; ; line++ {
		text, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break // what stands behind the last newline was cut off
		}
		if err != nil {
			return err
		}
		var e Entry
		if err := json.Unmarshal(text, &e); err != nil || e.Model == "" {
			return fmt.Errorf("%s: line %d is no entry of a journal: expected one JSON object with a model (take the file away to begin anew)", path, line)
		}
		j.last[e.Model] = e
		whole += int64(len(text))
	}
	if err := j.f.Truncate(whole); err != nil {
		return err
	}
	_, err := j.f.Seek(whole, io.SeekStart)
	return err
}

// Last gives the newest entry of a model.
func (j *Journal) Last(model string) (Entry, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, ok := j.last[model]
	return e, ok
}

// Add writes an entry, in one piece.
func (j *Journal) Add(e Entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last[e.Model] = e
	_, err = j.f.Write(append(bytes.ReplaceAll(text, []byte("\n"), nil), '\n'))
	return err
}

// Close closes the file.
func (j *Journal) Close() error { return j.f.Close() }
