package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestStubs: the stubs of macOS have what this version of Go takes from libresolv, and each lies
// where the flags of the linker lead.
func TestStubs(t *testing.T) {
	dir := t.TempDir()
	flags, err := writeStubs(dir)
	if want := []string{"-L" + dir, "-F" + dir}; err != nil || !slices.Equal(flags, want) {
		t.Fatalf("%q, %v: expected %q", flags, err, want)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "src", "internal", "syscall", "unix", "net_darwin.go"))
	if err != nil {
		t.Fatal(err)
	}
	taken := regexp.MustCompile(`cgo_import_dynamic \S+ (\S+) "/usr/lib/libresolv`).FindAllSubmatch(source, -1)
	stub, err := os.ReadFile(filepath.Join(dir, "libresolv.tbd"))
	if err != nil || len(taken) == 0 {
		t.Fatalf("%d names in Go's sources, %v", len(taken), err)
	}
	for _, name := range taken {
		if !regexp.MustCompile(`symbols: \[.*\b_` + string(name[1]) + `\b.*\]`).Match(stub) {
			t.Errorf("Go takes %s, which is not in\n%s", name[1], stub)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "CoreFoundation.framework", "CoreFoundation.tbd")); err != nil || !strings.Contains(string(text), "install-name: '/System/Library/Frameworks/CoreFoundation.framework/") {
		t.Errorf("%v:\n%s", err, text)
	}
}

// TestCross: Zig's compiler gets the stubs for macOS, on any machine and in the same folder each time.
func TestCross(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, target := range targets {
		first, err := target.cross("zig")
		if err != nil {
			t.Fatal(err)
		}
		second, err := target.cross("zig")
		if stubs := strings.Contains(strings.Join(first, " "), "macos-stubs"); err != nil || !slices.Equal(first, second) || stubs != (target.os == "darwin") {
			t.Errorf("%s: %q, then %q (%v)", target, first, second, err)
		}
	}
}

// TestCrossFails: a platform whose library is not linked has none, and ends the build only if it is
// that of this machine.
func TestCrossFails(t *testing.T) {
	broken, err := exec.LookPath("false")
	if err != nil {
		t.Skip("no command that fails")
	}
	t.Chdir(t.TempDir()) // without the package of the library, no compiler makes it
	for _, target := range targets {
		binary, err := target.crossPlanner(broken)
		here := target.os == runtime.GOOS && target.arch == runtime.GOARCH
		if binary != nil || (err != nil) != here {
			t.Errorf("%s: %d bytes, %v", target, len(binary), err)
		}
	}
}
