package lockfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// holds is the environment variable that makes this program take the lock of the
// file that it names, say so, and wait to be killed.
const holds = "ONNXMEM_TEST_HOLDS"

func TestMain(m *testing.M) {
	if path := os.Getenv(holds); path != "" {
		if _, err := Take(path); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("held")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// holder is another process that holds the lock of the file at path. kill ends it
// as kill -9 does.
func holder(t *testing.T, path string) (kill func()) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe)
	c.Env = append(os.Environ(), holds+"="+path)
	if _, err := c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	t.Cleanup(kill)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	return kill
}

func TestDeathEndsALock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	kill := holder(t, path)
	if h, err := TryTake(path); h != nil || err != nil {
		t.Fatalf("a lock that another process holds was taken (%v)", err)
	}
	kill()
	h, err := TryTakeOld(path)
	if h == nil {
		t.Fatalf("the lock outlives its process (%v)", err)
	}
	h.Release()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file is left after its lock: %v", err)
	}
}

func TestTakeOldMakesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if _, err := TakeOld(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := TryTakeOld(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the file was made")
	}
}

// Only one at a time, although each holder removes the file for which others wait.
func TestTakeExcludes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var wg sync.WaitGroup
	var holders atomic.Int32
	for range 8 {
		wg.Go(func() {
			for range 50 {
				h, err := Take(path)
				if err != nil {
					t.Error(err)
					return
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d hold the lock", n)
				}
				holders.Add(-1)
				h.Release()
			}
		})
	}
	wg.Wait()
}

func TestLockExcludesOpenFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	var files [2]*os.File
	for i := range files {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	if err := Lock(files[0]); err != nil {
		t.Fatal(err)
	}
	if ok, err := TryLock(files[1]); ok || err != nil {
		t.Errorf("locked twice: %t, %v", ok, err)
	}
	if err := Unlock(files[0]); err != nil {
		t.Fatal(err)
	}
	if ok, err := TryLock(files[1]); !ok || err != nil {
		t.Errorf("not locked: %t, %v", ok, err)
	}
	// The lock keeps nobody from reading and writing.
	if _, err := files[0].WriteString("x"); err != nil {
		t.Error(err)
	}
}

// A name that leads elsewhere is not locked, and a pipe not waited for.
func TestTakeRefusesWhatIsNoFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("symbolic links need a right there")
	}
	dir := t.TempDir()
	link, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), link); err != nil {
		t.Fatal(err)
	}
	if _, err := Take(link); err == nil {
		t.Error("a symbolic link was followed")
	}
	if err := exec.Command("mkfifo", pipe).Run(); err == nil {
		if _, err := Take(pipe); err == nil {
			t.Error("a pipe was locked")
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 2 {
		t.Errorf("left %v", entries)
	}
}
