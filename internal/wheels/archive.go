package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
)

// documents are what an archive holds beside the command, its licences and what is in it.
var documents = []string{"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "docs/*.md", "docs/plan.schema.json"}

// archive writes the command with its documents into a folder: a .tar.gz, for Windows a .zip.
// It returns the path and the bytes. Files have no time and no owner.
func (c built) archive(out, version string) (path string, packed []byte, err error) {
	base := "onnxmem_" + strings.TrimPrefix(version, "v") + "_" + c.os + "_" + c.arch
	if c.static {
		base += "_static"
	}
	entries := []entry{{c.command(), c.binary, 0o755}, {command.sbomName(), c.sbom, 0o644}}
	for _, pattern := range documents {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", nil, err
		}
		for _, file := range found {
			data, err := os.ReadFile(file)
			if err != nil {
				return "", nil, err
			}
			entries = append(entries, entry{filepath.ToSlash(file), data, 0o644})
		}
	}
	for _, l := range c.licenses {
		if strings.Contains(l.name, "/") { // ours is there already
			entries = append(entries, entry{"licenses/" + l.name, l.data, l.mode})
		}
	}
	for i := range entries {
		entries[i].name = base + "/" + entries[i].name
	}
	pack, ending := tarred, ".tar.gz"
	if c.os == "windows" {
		pack, ending = zipped, ".zip"
	}
	if packed, err = pack(entries); err != nil {
		return "", nil, err
	}
	path = filepath.Join(out, base+ending)
	return path, packed, os.WriteFile(path, packed, 0o666)
}

// tarred returns a compressed tar file of entries in the given order.
func tarred(entries []entry) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: int64(e.mode), Size: int64(len(e.data)), ModTime: earliest, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := t.Write(e.data); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	err := z.Close()
	return b.Bytes(), err
}
