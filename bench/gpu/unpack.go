package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/ulikunitz/xz/lzma"
)

// The kit's files travel as .lzma: NVIDIA's compiler is a third smaller than with gzip, and
// a machine with a driver and nothing else has no program that could unpack them.

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
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	if err := errors.Join(unpackTo(out, in, unpackedMost), out.Close()); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return os.Rename(to+".new", to)
}

// unpackTo writes what an .lzma file holds, and refuses more than most bytes.
func unpackTo(out io.Writer, in io.Reader, most int64) error {
	r, err := lzma.NewReader(bufio.NewReaderSize(in, 1<<16))
	if err != nil {
		return err
	}
	if n, err := io.Copy(out, io.LimitReader(r, most+1)); err != nil {
		return err
	} else if n > most {
		return fmt.Errorf("more than %d bytes", most)
	}
	return nil
}
