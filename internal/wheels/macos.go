package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// stubs are the two libraries of macOS for which Go's runtime asks and which Zig does not bring:
// where they lie there, and what Go takes from them. Nothing of them is in what is linked but
// these names, which the loader of macOS resolves.
var stubs = []struct{ file, at, symbols string }{
	{"libresolv.tbd", "/usr/lib/libresolv.9.dylib", "_res_9_nclose, _res_9_ninit, _res_9_nsearch"},
	{"CoreFoundation.framework/CoreFoundation.tbd", "/System/Library/Frameworks/CoreFoundation.framework/Versions/A/CoreFoundation", ""},
}

// writeStubs writes the stubs into a folder, and returns the flags of a linker that finds them.
func writeStubs(dir string) ([]string, error) {
	for _, s := range stubs {
		text := fmt.Sprintf(`--- !tapi-tbd
tbd-version: 4
targets: [ x86_64-macos, arm64-macos ]
install-name: '%s'
exports:
  - targets: [ x86_64-macos, arm64-macos ]
    symbols: [ %s ]
...
`, s.at, s.symbols)
		path := filepath.Join(dir, s.file)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return nil, err
		}
		if old, err := os.ReadFile(path); err == nil && string(old) == text {
			continue // another build may be reading it
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			return nil, err
		}
	}
	return []string{"-L" + dir, "-F" + dir}, nil
}
