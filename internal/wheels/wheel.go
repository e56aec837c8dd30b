package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file of a wheel.
type entry struct {
	name string // with slashes
	data []byte
	mode fs.FileMode
}

// wheel is a built distribution of a Python package (PyPA's binary distribution
// format, version 1.0).
type wheel struct {
	about    pkg
	version  string   // of Python's kind
	tags     []string // platform tags
	module   []entry  // files of the module, below the folder for modules
	command  string   // the file name of the command; empty: there is none
	binary   []byte   // its content
	licenses []entry  // below the folder of licences
	sbom     []byte   // what is native in it

	description []byte // for people, in Markdown
}

// name is the file name of the wheel. It holds the version and the platforms, and
// says that any Python 3 will do.
func (w wheel) name() string {
	return fmt.Sprintf("%s-py3-none-%s.whl", w.base(), strings.Join(w.tags, "."))
}

// base is the begin of the names of the wheel and its folders.
func (w wheel) base() string {
	return strings.ReplaceAll(w.about.name, "-", "_") + "-" + w.version
}

// pack returns the wheel's bytes: a zip file whose entries have no time, with the
// list of all files and their digests as the last.
func (w wheel) pack() ([]byte, error) {
	info := w.base() + ".dist-info/"
	entries := slices.Clone(w.module)
	if w.command != "" {
		entries = append(entries, entry{w.base() + ".data/scripts/" + w.command, w.binary, 0o755})
	}
	for _, l := range w.licenses {
		entries = append(entries, entry{info + "licenses/" + l.name, l.data, l.mode})
	}
	entries = append(
		entries,
		entry{info + "sboms/" + w.about.sbomName(), w.sbom, 0o644},
		entry{info + "METADATA", w.metadata(), 0o644},
		entry{info + "WHEEL", w.kind(), 0o644},
	)
	var record bytes.Buffer
	for _, e := range entries {
		sum := sha256.Sum256(e.data)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", e.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(e.data))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	return zipped(append(entries, entry{info + "RECORD", record.Bytes(), 0o644}))
}

// kind is the file that says what kind of wheel this is. What is native is for one
// platform, so the wheel is not "pure".
func (w wheel) kind() []byte {
	var b bytes.Buffer
	b.WriteString("Wheel-Version: 1.0\nGenerator: onnxmem\nRoot-Is-Purelib: false\n")
	for _, t := range w.tags {
		fmt.Fprintf(&b, "Tag: py3-none-%s\n", t)
	}
	return b.Bytes()
}

// earliest is the time of all files: the earliest that a zip file knows.
var earliest = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// zipped returns a zip file of entries in the given order.
func zipped(entries []entry) ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: earliest}
		h.SetMode(e.mode)
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write(e.data)
		}
		if err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return b.Bytes(), err
}

// moduleFiles reads a Python module from the folder of its sources.
func moduleFiles(sources string) ([]entry, error) {
	var list []entry
	err := filepath.WalkDir(sources, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "__pycache__":
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		name, err := filepath.Rel(sources, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		list = append(list, entry{filepath.ToSlash(name), data, 0o644})
		return err
	})
	return list, err
}
