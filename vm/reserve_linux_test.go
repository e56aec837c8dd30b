package vm_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/onnxmem/onnxmem/vm"
)

// TestHostFileWithoutRoom: if the disk has no room for the host pool, NewSession fails and
// leaves no file. A mapped file without blocks would fault later.
func TestHostFileWithoutRoom(t *testing.T) {
	// The limit applies to the whole process, and would truncate the log of the tests.
	const limited = "ONNXMEM_TEST_WITHOUT_ROOM"
	if os.Getenv(limited) == "" {
		c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		c.Env = append(os.Environ(), limited+"=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	program, _ := planListed(t, swapModel(t, true))
	path := filepath.Join(t.TempDir(), "host")
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	// Less than the pool, and more than the file in which package testing logs the files
	// that a test opens.
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 18, Max: old.Max}); err != nil {
		t.Skip(err)
	}
	_, err := program.NewSession(vm.Options{HostFile: path})
	if reset := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); reset != nil {
		t.Fatal(reset)
	}
	if err == nil || !errors.Is(err, syscall.EFBIG) || !strings.HasPrefix(err.Error(), path+": cannot hold the host pool of ") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file is left: %v", err)
	}
	missing := filepath.Join(t.TempDir(), "no", "host")
	if _, err := program.NewSession(vm.Options{HostFile: missing}); err == nil || !strings.Contains(err.Error(), "no such folder: create it first") {
		t.Errorf("got %v", err)
	}
}
