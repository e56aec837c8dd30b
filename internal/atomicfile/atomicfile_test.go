package atomicfile

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// written begins a file at path that holds text.
func written(t *testing.T, path, text string) *File {
	t.Helper()
	p, err := Create(path, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.WriteString(text); err != nil {
		t.Fatal(err)
	}
	return p
}

// folder lists what stands in a folder.
func folder(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(b)
	}
	return files
}

func TestCommitIsAllOrNothing(t *testing.T) {
	dir := t.TempDir()
	a, b := written(t, filepath.Join(dir, "a"), "1"), written(t, filepath.Join(dir, "b"), "2")
	if err := os.Mkdir(filepath.Join(dir, "b"), 0o777); err != nil { // b cannot be put there any more
		t.Fatal(err)
	}
	if err := Commit(false, a, b); err == nil {
		t.Error("a file took the place of a folder")
	}
	if left := folder(t, dir); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	a, b = written(t, filepath.Join(dir, "a"), "1"), written(t, filepath.Join(dir, "c"), "2")
	if err := Commit(true, a, b); err != nil {
		t.Fatal(err)
	}
	a.Abort() // does nothing any more
	if got := folder(t, dir); len(got) != 2 || got["a"] != "1" || got["c"] != "2" {
		t.Errorf("got %v", got)
	}
}

func TestAbortedFilesAreNotCommitted(t *testing.T) {
	dir := t.TempDir()
	p := written(t, filepath.Join(dir, "a"), "1")
	AbortAll()
	if err := p.Commit(false); err == nil {
		t.Error("a file that was aborted was committed")
	}
	if left := folder(t, dir); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// TestModeIsKept: whatever the umask takes from new files.
func TestModeIsKept(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no such modes")
	}
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const mode = 0o666 // the usual umask makes 0o644 of it
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	if err := written(t, path, "1").Commit(false); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != mode {
		t.Errorf("mode %v, %v: expected %o", info.Mode().Perm(), err, mode)
	}
}
