package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// die leaves everything as a process does that is killed: locks end, files stay.
func die(records ...*record) {
	for _, r := range records {
		r.held.Close()
	}
	open.Lock()
	defer open.Unlock()
	for p := range open.files {
		if p.File != nil {
			p.Close()
		}
	}
	for _, o := range open.owners {
		o.held.Close()
	}
	open.files, open.owners = nil, nil
}

// hear collects what Notice hears during a test.
func hear(t *testing.T) *[]string {
	t.Helper()
	var lines []string
	Notice = func(line string) { lines = append(lines, line) }
	t.Cleanup(func() { Notice = nil })
	return &lines
}

// names of files that belong together: one is new each time, and the last lies in
// another folder.
var together = []string{"m.onnx", "m.plan.json", "new.html", "elsewhere/m.params"}

// stage makes the old files in dir and begins the new ones.
func stage(t *testing.T, dir string) (files []*File) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "elsewhere"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range together {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if name != "new.html" {
			if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		p := written(t, path, "brand-new")
		if err := p.finish(false); err != nil {
			t.Fatal(err)
		}
		files = append(files, p)
	}
	return files
}

// state reads the files that belong together: "old", "new" or what else they are.
func state(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	for _, name := range together {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		switch {
		case err == nil:
			all = append(all, string(text))
		case name == "new.html":
			all = append(all, "old")
		default:
			all = append(all, err.Error())
		}
	}
	switch s := strings.Join(all, " "); s {
	case "old old old old":
		return "old"
	case "brand-new brand-new brand-new brand-new":
		return "new"
	default:
		return s
	}
}

// clean fails if anything but the files is left once all is swept.
func clean(t *testing.T, dir string) {
	t.Helper()
	SweepTree(dir)
	for _, d := range []string{dir, filepath.Join(dir, "elsewhere")} {
		for name := range folder(t, d) {
			if strings.HasPrefix(name, Prefix) {
				t.Errorf("left %s", name)
			}
		}
	}
}

// After a kill in any step of a Commit, or of the Settle after it, whose steps are
// the same, the next who looks finds all files new.
func TestKilledCommit(t *testing.T) {
	for step := range len(together) + 2 {
		t.Run(fmt.Sprintf("after step %d", step), func(t *testing.T) {
			heard := hear(t)
			dir := t.TempDir()
			files, r := recorded(t, dir)
			for i, p := range files {
				if i < step {
					rename(t, p)
				}
			}
			if step > len(files) {
				r.removeOld()
			}
			die(r)
			Sweep(filepath.Join(dir, "elsewhere")) // it takes away nothing that is needed
			if err := Settle(files[0].path); err != nil {
				t.Fatal(err)
			}
			if got := state(t, dir); got != "new" {
				t.Errorf("the files are %s", got)
			}
			if want := step < len(together); (len(*heard) == 1) != want {
				t.Errorf("heard %q", *heard)
			}
			clean(t, dir)
		})
	}
}

// A kill before the record is written leaves all files old.
func TestKilledBeforeTheRecord(t *testing.T) {
	dir := t.TempDir()
	files := stage(t, dir)
	die(take(files[0].path))
	if err := Settle(files[0].path); err != nil {
		t.Fatal(err)
	}
	if got := state(t, dir); got != "old" {
		t.Errorf("the files are %s", got)
	}
	clean(t, dir)
}

// recorded stages files and writes their record.
func recorded(t *testing.T, dir string) ([]*File, *record) {
	t.Helper()
	files := stage(t, dir)
	r := take(files[0].path)
	for _, p := range files {
		r.add(p)
	}
	if err := r.write(false, true); err != nil {
		t.Fatal(err)
	}
	return files, r
}

func rename(t *testing.T, p *File) {
	t.Helper()
	if err := os.Rename(p.tmp, p.path); err != nil {
		t.Fatal(err)
	}
}

// A record that is cut off at any byte was never written.
func TestKilledWhileTheRecordIsWritten(t *testing.T) {
	dir := t.TempDir()
	files, r := recorded(t, dir)
	first := files[0].path
	whole, err := os.ReadFile(r.path)
	if err != nil {
		t.Fatal(err)
	}
	die(r)
	for n := range whole {
		if err := os.WriteFile(r.path, whole[:n], 0o666); err != nil {
			t.Fatal(err)
		}
		if err := Settle(first); err != nil {
			t.Fatal(err)
		}
		if got := state(t, dir); got != "old" {
			t.Fatalf("cut off at byte %d of %d: the files are %s", n, len(whole), got)
		}
	}
	for i := range whole { // nor was one in which a byte is wrong
		text := bytes.Clone(whole)
		text[i] ^= 1
		if err := os.WriteFile(r.path, text, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := Settle(first); err != nil {
			t.Fatal(err)
		}
		if got := state(t, dir); got != "old" {
			t.Fatalf("byte %d of %d is wrong: the files are %s", i, len(whole), got)
		}
	}
	clean(t, dir)
}

// Where one of the files cannot be put in its place, what was replaced comes back,
// also where the process is killed on the way.
func TestTakenBack(t *testing.T) {
	for _, back := range []int{-1, 0, 1, 2} { // renames back before a kill; -1: none comes
		t.Run(fmt.Sprint(back), func(t *testing.T) {
			heard := hear(t)
			dir := t.TempDir()
			files := stage(t, dir)
			blocked := written(t, filepath.Join(dir, "blocked"), "new")
			if err := os.Mkdir(blocked.path, 0o777); err != nil {
				t.Fatal(err)
			}
			if back < 0 {
				for _, p := range files {
					reopen(t, p)
				}
				err := Commit(true, append(files, blocked)...)
				if err == nil || !strings.Contains(err.Error(), "blocked") || strings.Contains(err.Error(), Prefix) {
					t.Errorf("got %v", err)
				}
			} else {
				r := take(files[0].path)
				for _, p := range append(files, blocked) {
					r.add(p)
				}
				for _, step := range []error{
					r.write(false, true),
					os.Rename(files[0].tmp, files[0].path), os.Rename(files[1].tmp, files[1].path), os.Rename(files[2].tmp, files[2].path),
					r.write(true, true),
				} {
					if step != nil {
						t.Fatal(step)
					}
				}
				whole := r.Files
				if r.Files = whole[:back]; r.back() != nil {
					t.Fatal("no way back")
				}
				die(r)
				if err := Settle(files[0].path); err != nil {
					t.Fatal(err)
				}
				if len(*heard) != 1 {
					t.Errorf("heard %q", *heard)
				}
			}
			if got := state(t, dir); got != "old" {
				t.Errorf("the files are %s", got)
			}
			clean(t, dir)
		})
	}
}

// reopen opens the temporary file of a File that was finished, for another Commit.
func reopen(t *testing.T, p *File) {
	t.Helper()
	f, err := os.OpenFile(p.tmp, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	p.File = f
}

// What somebody has written since is not replaced.
func TestChangedSince(t *testing.T) {
	for renamed, want := range map[int]string{0: "stay as they are", 1: "may not belong together"} {
		heard := hear(t)
		dir := t.TempDir()
		files, r := recorded(t, dir)
		for _, p := range files[:renamed] {
			rename(t, p)
		}
		die(r)
		if err := os.WriteFile(files[1].path, []byte("somebody's"), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := Settle(files[0].path); err != nil {
			t.Fatal(err)
		}
		if len(*heard) != 1 || !strings.Contains((*heard)[0], want) {
			t.Errorf("heard %q", *heard)
		}
		if text, _ := os.ReadFile(files[1].path); string(text) != "somebody's" {
			t.Errorf("%q stands there", text)
		}
		clean(t, dir)
	}
}

// The next Commit of the same files finishes the one before it, and its own are
// there afterwards.
func TestCommitAfterAKill(t *testing.T) {
	dir := t.TempDir()
	files, r := recorded(t, dir)
	die(r)
	if err := Commit(false, written(t, files[0].path, "newest"), written(t, files[1].path, "newest")); err != nil {
		t.Fatal(err)
	}
	if err := Settle(files[0].path); err != nil {
		t.Fatal(err)
	}
	if got := state(t, dir); got != "newest newest brand-new brand-new" {
		t.Errorf("the files are %s", got)
	}
	clean(t, dir)
}

// A record of elsewhere renames nothing but temporary files, within their folders.
func TestForgedRecord(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("other paths")
	}
	root := t.TempDir()
	dir, home := filepath.Join(root, "unpacked"), filepath.Join(root, "home")
	for _, d := range []string{dir, home} {
		if err := os.Mkdir(d, 0o777); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"m.onnx", ".profile", Prefix + "00-1", Prefix + "00.lock"} {
			if err := os.WriteFile(filepath.Join(d, name), []byte(name), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	first := filepath.Join(dir, "m.onnx")
	for _, p := range []place{
		{Name: "../home/.profile", Tmp: Prefix + "00-1"},
		{Name: ".profile", Tmp: "../unpacked/" + Prefix + "00-1", Dir: bytesName(home)},
		{Name: ".profile", Tmp: "m.onnx"},
		{Name: ".profile", Tmp: Prefix + "00-1", Dir: "../home"},
		{Name: ".profile", Tmp: Prefix + "00-1", Dir: bytesName(home)}, // no lock there names the record
	} {
		for _, back := range []bool{false, true} {
			r := &record{path: recordPath(first), home: dir}
			p.Was, p.New = stamp(r.at(&p, p.Name)), stamp(r.at(&p, p.Tmp))
			if back {
				p.Was, p.New, p.Old = p.New, p.Was, p.Tmp
			}
			r.Files = []place{p}
			r.held = take(first).held
			if err := r.write(back, false); err != nil {
				t.Fatal(err)
			}
			r.held.Close()
			_ = Settle(first)
			for _, d := range []string{dir, home} {
				for name, text := range folder(t, d) {
					if !strings.HasPrefix(name, Prefix) && text != name {
						t.Errorf("%+v, back %t: %s in %s holds %q", p, back, name, d, text)
					}
				}
			}
			os.Remove(recordPath(first))
		}
	}
}

// Temporary files go when their process has died, and not before.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	written(t, filepath.Join(dir, "dead"), "1")
	die()
	alive := written(t, filepath.Join(dir, "alive"), "2")
	if err := os.WriteFile(filepath.Join(dir, Prefix+"of-an-earlier-version"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	SweepTree(filepath.Dir(dir))
	if got := folder(t, dir); len(got) != 2 || got[filepath.Base(alive.tmp)] != "2" {
		t.Errorf("left %v", got)
	}
	if err := alive.Commit(false); err != nil {
		t.Fatal(err)
	}
	if got := folder(t, dir); len(got) != 1 || got["alive"] != "2" {
		t.Errorf("left %v", got)
	}
}

// What cannot be finished now stays to be finished later.
func TestUnfinished(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.onnx")
	files := []*File{written(t, path, "new"), written(t, filepath.Join(dir, "m.plan.json"), "new")}
	if err := os.Mkdir(path, 0o777); err != nil {
		t.Fatal(err)
	}
	r := take(path)
	for _, p := range files {
		r.add(p)
	}
	if err := r.write(false, true); err != nil {
		t.Fatal(err)
	}
	die(r)
	for range 2 {
		if err := Settle(path); err == nil || !strings.Contains(err.Error(), "cannot be finished") || strings.Contains(err.Error(), Prefix) {
			t.Errorf("got %v", err)
		}
		Sweep(dir)
	}
	left := folder(t, dir)
	for _, p := range files {
		if left[filepath.Base(p.tmp)] != "new" {
			t.Errorf("%s is gone", p.tmp)
		}
	}
	os.Remove(path) // now something has changed: nothing is left to be finished
	Sweep(dir)
	if left := folder(t, dir); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// Files that were written at one moment, and are as long, have one stamp; each still
// comes back.
func TestTakenBackAtOnce(t *testing.T) {
	dir := t.TempDir()
	moment := time.Unix(1, 0)
	var files []*File
	for _, name := range []string{"a", "b", "blocked"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
			t.Fatal(err)
		}
		p := written(t, path, "new")
		for _, at := range []string{path, p.tmp} {
			if err := os.Chtimes(at, moment, moment); err != nil {
				t.Fatal(err)
			}
		}
		files = append(files, p)
	}
	if err := errors.Join(os.Remove(files[2].path), os.Mkdir(files[2].path, 0o777)); err != nil {
		t.Fatal(err)
	}
	if err := Commit(false, files...); err == nil {
		t.Error("a file took the place of a folder")
	}
	if got := folder(t, dir); len(got) != 2 || got["a"] != "old" || got["b"] != "old" {
		t.Errorf("left %v", got)
	}
}

// A reader gets files of the same moment, however often others replace them.
func TestSteady(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	replace := func(n int) {
		if err := Commit(false, written(t, a, fmt.Sprint(n)), written(t, b, fmt.Sprint(n))); err != nil {
			t.Error(err)
		}
	}
	replace(0)
	// In the middle of reading: each time for a while, then no more.
	calls := 0
	var x, y []byte
	if err := Steady(a, func() (err error) {
		if x, err = os.ReadFile(a); err != nil {
			return err
		}
		if calls++; calls <= 3 {
			replace(calls)
		}
		y, err = os.ReadFile(b)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if string(x) != "3" || string(y) != "3" || calls != 4 {
		t.Errorf("read %s and %s, in %d calls", x, y, calls)
	}
	// In the middle of a Commit that has not come to the first file, and never will.
	calls = 0
	if err := Steady(a, func() (err error) {
		if x, err = os.ReadFile(a); err != nil {
			return err
		}
		if calls++; calls == 1 {
			files := []*File{written(t, a, "4"), written(t, b, "4")}
			r := take(a)
			for _, p := range files {
				r.add(p)
			}
			if err := r.write(false, false); err != nil {
				return err
			}
			rename(t, files[1])
			die(r)
		}
		y, err = os.ReadFile(b)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if string(x) != "4" || string(y) != "4" || calls != 2 {
		t.Errorf("read %s and %s, in %d calls", x, y, calls)
	}
	// At any moment.
	end := make(chan bool)
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 5; ; n++ {
			select {
			case <-end:
				return
			default:
				replace(n)
			}
		}
	})
	for range 200 {
		if err := Steady(b, func() error { return nil }); err != nil { // b is not the first
			t.Fatal(err)
		}
		if err := Steady(a, func() error {
			x, _ = os.ReadFile(a)
			y, _ = os.ReadFile(b)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if string(x) != string(y) {
			t.Errorf("read %s and %s", x, y)
		}
	}
	close(end)
	wg.Wait()
	// What is not there is read once, and so is what fails.
	calls = 0
	missing := errors.New("missing")
	if err := Steady(filepath.Join(dir, "none"), func() error {
		calls++
		return missing
	}); err != missing || calls != 1 {
		t.Errorf("%v, in %d calls", err, calls)
	}
}
