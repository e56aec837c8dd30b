package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// unpackedMost is the largest size of an unpacked file of the kit, in bytes: NVIDIA's
// compiler has 110 MB.
const unpackedMost = 1 << 29

// unpack writes the files of a kit's folder that end in .lzma, without that ending, to
// another folder, at the same time. A file that is there and newer stays.
func unpack(kit, to string) error {
	list, err := filepath.Glob(filepath.Join(kit, "*.lzma"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	failures := make([]error, len(list))
	var all sync.WaitGroup
	for i, path := range list {
		all.Go(func() {
			failures[i] = unpackFile(path, filepath.Join(to, strings.TrimSuffix(filepath.Base(path), ".lzma")))
		})
	}
	all.Wait()
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}

func unpackFile(from, to string) error {
	packed, err := os.Stat(from)
	if err != nil {
		return err
	}
	if there, err := os.Stat(to); err == nil && there.ModTime().After(packed.ModTime()) {
		return nil
	}
	in, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	out, err := unpackLZMA(in, unpackedMost)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	if err := os.WriteFile(to+".new", out, 0o755); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}
