//go:build unix

package readable

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Open and Read must not wait for any of these; if they do, the test hangs.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("file"), []byte("text"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pipe", "written"} {
		if err := syscall.Mkfifo(at(name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	writer, err := os.OpenFile(at("written"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.WriteString("piped"); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Symlink(at("pipe"), at("link")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		at("file"):    "text",
		at("pipe"):    "is a pipe that nobody writes to, expected a file",
		at("link"):    "is a pipe that nobody writes to, expected a file",
		at("written"): "piped",
		dir:           "is a folder, expected a file",
		at("socket"):  "is a socket, expected a file",
		os.DevNull:    "is a device, expected a file",
		at("none"):    "not found",
	} {
		var text []byte
		f, err := Open(path)
		if err == nil {
			if path == at("written") {
				writer.Close() // ends the pipe
			}
			text, err = io.ReadAll(f)
			f.Close()
		}
		if err != nil {
			text = []byte(err.Error())
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("%s: got %q, want %q", path, text, want)
		}
	}
}
