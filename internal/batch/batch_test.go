package batch

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onnxmem/onnxmem/internal/lockfile"
)

// tree makes empty files.
func tree(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFind(t *testing.T) {
	dir := tree(t, "b/two.onnx", "a.onnx", "b/readme.md", ".git/x.onnx", "c/two.onnx")
	rels := func(list string, names ...string) string {
		t.Helper()
		for i, n := range names {
			if n != "-" {
				names[i] = filepath.Join(dir, n)
			}
		}
		found, err := Find(names, strings.NewReader(list))
		if err != nil {
			return "error: " + strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
		}
		var out []string
		for _, m := range found.Models {
			out = append(out, filepath.ToSlash(m.Rel))
		}
		return strings.Join(out, " ")
	}
	for _, c := range []struct {
		name, list string
		in         []string
		want       string
	}{
		{"a folder, hidden ones left out", "", []string{"."}, "a.onnx b/two.onnx c/two.onnx"},
		{"a file", "", []string{"b/two.onnx"}, "two.onnx"},
		{"a pattern, results below what it names", "", []string{"*/two.onnx"}, "b/two.onnx c/two.onnx"},
		{"a list", "x/y.onnx\n\n../up.onnx\n", []string{"-"}, "up.onnx x/y.onnx"},
		{"two results in one place", "", []string{"b/two.onnx", "c/two.onnx"}, "error: b/two.onnx and c/two.onnx would both be written to two.onnx: expected models of different names"},
		{"nothing there", "", []string{"nosuch"}, "error: nosuch: not found: expected a folder, a model or a pattern"},
	} {
		if got := rels(c.list, slices.Clone(c.in)...); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// One run at a time has hold of a model.
func TestClaim(t *testing.T) {
	dir, m := t.TempDir(), Model{Rel: "deep/a.onnx"}
	ctx := t.Context()
	release, err := Claim(ctx, dir, m, false)
	if release == nil || err != nil {
		t.Fatal(err)
	}
	if again, err := Claim(ctx, dir, m, false); again != nil || err != nil {
		t.Errorf("a model was had twice (%v)", err)
	}
	if other, err := Claim(ctx, dir, Model{Rel: "other/a.onnx"}, false); other == nil || err != nil {
		t.Errorf("another model was not had (%v)", err)
	} else {
		other()
	}
	ended, end := context.WithCancel(ctx)
	end()
	if again, err := Claim(ended, dir, m, true); again != nil || err != nil {
		t.Errorf("a model was had twice (%v)", err)
	}
	waited := make(chan error)
	go func() {
		release, err := Claim(ctx, dir, m, true)
		if release != nil {
			release()
		}
		waited <- err
	}()
	release()
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestShardsArePartsOfTheList(t *testing.T) {
	var models, together []Model
	for _, name := range strings.Fields("a b c d e f g") {
		models = append(models, Model{Rel: name})
	}
	for i := 1; i <= 3; i++ {
		together = append(together, Shard(models, i, 3)...)
	}
	slices.SortFunc(together, func(a, b Model) int { return strings.Compare(a.Rel, b.Rel) })
	if d := cmp.Diff(models, together); d != "" {
		t.Error(d)
	}
}

// A journal that was cut off at any byte is read up to the last whole line, and
// goes on from there.
func TestJournalIsCutOffAnywhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []Entry{{Model: "a", Key: "1", Status: StatusOK}, {Model: "b", Key: "2", Status: StatusFailed, Error: "x\ny"}, {Model: "a", Key: "3", Status: StatusOK}} {
		if err := j.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	j.Close()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(text) + 1 {
		if err := os.WriteFile(path, text[:n], 0o666); err != nil {
			t.Fatal(err)
		}
		j, err := OpenJournal(path)
		if err != nil {
			t.Fatalf("cut off at byte %d: %v", n, err)
		}
		whole := strings.Count(string(text[:n]), "\n")
		if _, ok := j.Last("b"); ok != (whole >= 2) {
			t.Errorf("cut off at byte %d, after %d lines: b is there: %t", n, whole, ok)
		}
		if err := j.Add(Entry{Model: "c", Status: StatusOK}); err != nil {
			t.Fatal(err)
		}
		j.Close()
		again, err := OpenJournal(path)
		if err != nil {
			t.Fatalf("cut off at byte %d, one line added: %v", n, err)
		}
		if _, ok := again.Last("c"); !ok {
			t.Errorf("cut off at byte %d: what was added after it is lost", n)
		}
		again.Close()
	}
}

// Lines in the middle that are no entries are passed over, and told of.
func TestJournalIsDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	damage := "{\"model\":\"b\",\"ke{\"model\":\"c\",\"status\":\"ok\"}\n\x00\x00\x00\n\n" +
		`{"model":"a","status":"failed","status":"ok"}` + "\n" + `{"Model":"a","status":"failed"}` + "\n" // of two minds
	if err := os.WriteFile(path, []byte(`{"model":"a","status":"ok"}`+"\n"+damage+`{"model":"d","status":"ok"}`+"\n\x00\x00"), 0o666); err != nil {
		t.Fatal(err)
	}
	j, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	_, a := j.Last("a")
	_, d := j.Last("d")
	if !a || !d || j.Damaged() != 4 {
		t.Errorf("a is there: %t, d is there: %t, %d lines are damaged, expected 4", a, d, j.Damaged())
	}
	if text, _ := os.ReadFile(path); !strings.HasSuffix(string(text), "\"d\",\"status\":\"ok\"}\n") {
		t.Errorf("left %q", text)
	}
}

// Several runs add to one journal: each hears of all, and no line is torn, also
// where one of them was killed within a line.
func TestJournalIsShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	var journals []*Journal
	for range 4 {
		j, err := OpenJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		journals = append(journals, j)
	}
	torn, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer torn.Close()
	var tearing sync.Mutex // goroutines that share a file share its lock
	var wg sync.WaitGroup
	for i, j := range journals {
		wg.Go(func() {
			for k := range 50 {
				if err := j.Add(Entry{Model: fmt.Sprint(i, k), Status: StatusOK, Error: strings.Repeat("long ", 2000)}); err != nil {
					t.Error(err)
				}
				if k%10 == 0 {
					tearing.Lock()
					_ = lockfile.Lock(torn)
					_, _ = torn.WriteString(`{"model":"cut o`)
					_ = lockfile.Unlock(torn)
					tearing.Unlock()
				}
			}
		})
	}
	wg.Wait()
	fresh, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	for _, j := range append(journals, fresh) {
		if err := j.With(func(entries map[string]Entry) error {
			if len(entries) != 200 {
				t.Errorf("%d entries, expected 200", len(entries))
			}
			return nil
		}); err != nil || j.Damaged() > 0 {
			t.Errorf("%v, %d lines are damaged", err, j.Damaged())
		}
	}
}

// If the journal is removed, a new one is started.
func TestJournalIsTakenAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for _, model := range []string{"a", "b"} {
		if err := j.Add(Entry{Model: model, Status: StatusOK}); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path, path+"."+model); err != nil {
			t.Skip("open files stay where they are on this system")
		}
	}
	if text, _ := os.ReadFile(path + ".b"); strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), `"b"`) {
		t.Errorf("the second journal holds %q", text)
	}
}

// The names of models come back as they were, whatever bytes they are.
func TestEntryHoldsAnyName(t *testing.T) {
	for name, want := range map[string]string{
		"zoo/a.onnx":       `{"model":"zoo/a.onnx","key":"","status":"","ms":0}`,
		"caf\xe9.onnx":     `{"model":"caf\\xe9.onnx","model_bytes":"Y2Fm6S5vbm54","key":"","status":"","ms":0}`,
		`caf\xe9.onnx`:     `{"model":"caf\\xe9.onnx","key":"","status":"","ms":0}`,
		"a\nb\x1b[1m.onnx": `{"model":"a\nb\u001b[1m.onnx","key":"","status":"","ms":0}`,
	} {
		text, err := json.Marshal(Entry{Model: name})
		if err != nil || string(text) != want {
			t.Errorf("%q: got %s, %v, want %s", name, text, err, want)
		}
		var e Entry
		if err := json.Unmarshal(text, &e); err != nil || e.Model != name {
			t.Errorf("%q came back as %q, %v", name, e.Model, err)
		}
	}
}

func TestJournalRefusesWhatIsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	if err := os.WriteFile(path, []byte("{}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenJournal(path); err == nil || !strings.Contains(err.Error(), "line 1 is not a journal entry") {
		t.Errorf("got %v", err)
	}
}

// Never more at a time than the limits let; one that needs more than there is
// runs alone.
func TestRunKeepsItsLimits(t *testing.T) {
	var models []Model
	for _, name := range strings.Fields("a bb ccc dddddddd e ff g hhh i jj") {
		models = append(models, Model{Rel: name})
	}
	expect := func(m Model) int64 { return int64(len(m.Rel)) }
	var now, used, most, mostUsed atomic.Int64
	count := 0
	Run(context.Background(), models, Limits{Jobs: 3, Memory: 5}, expect, func(_ context.Context, m Model) Entry {
		n, u := now.Add(1), used.Add(expect(m))
		if u > 5 && n > 1 {
			t.Errorf("%d models together need %d, expected at most 5", n, u)
		}
		most.Store(max(most.Load(), n))
		mostUsed.Store(max(mostUsed.Load(), u))
		used.Add(-expect(m))
		now.Add(-1)
		return Entry{Model: m.Rel}
	}, func(Entry) { count++ })
	if count != len(models) || most.Load() > 3 || mostUsed.Load() != 8 {
		t.Errorf("%d of %d done, at most %d at a time, %d the largest", count, len(models), most.Load(), mostUsed.Load())
	}
}

func TestRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	begun, heard := 0, 0
	Run(ctx, make([]Model, 100), Limits{Jobs: 1}, func(Model) int64 { return 0 }, func(one context.Context, _ Model) Entry {
		if begun++; begun == 3 {
			cancel()
		}
		return Entry{}
	}, func(Entry) { heard++ })
	if begun != 3 || heard != 2 {
		t.Errorf("%d begun, %d heard of, expected 3 and 2", begun, heard)
	}
}
