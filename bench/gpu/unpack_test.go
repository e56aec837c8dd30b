package main

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// packed is "onnxmem, onnxmem, onnxmem!\n" as `xz --format=lzma` writes it.
const packed = "5d00008000ffffffffffffffff00379bacf06f975ef30adaac923c8f22fdfffffbc82000"

// TestUnpack: a file of the kit is unpacked, one that is newer stays, and damaged ones are
// refused and leave nothing.
func TestUnpack(t *testing.T) {
	in, err := hex.DecodeString(packed)
	if err != nil {
		t.Fatal(err)
	}
	kit, to := t.TempDir(), t.TempDir()
	put := func(b []byte) {
		if err := os.WriteFile(filepath.Join(kit, "a.lzma"), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, bad := range map[string][]byte{"nothing": nil, "a cut file": in[:len(in)-8], "wrong properties": append([]byte{225}, in[1:]...)} {
		put(bad)
		if err := unpack(kit, to); err == nil || !strings.Contains(err.Error(), "a.lzma: ") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(to, "a")); err == nil {
			t.Errorf("%s: a file is there", name)
		}
	}
	put(in)
	for range 2 {
		if err := unpack(kit, to); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(to, "a")); err != nil || string(got) != "onnxmem, onnxmem, onnxmem!\n" {
			t.Fatalf("got %q, %v", got, err)
		}
		put([]byte("damaged, but older"))
		if err := os.Chtimes(filepath.Join(kit, "a.lzma"), time.Unix(0, 0), time.Unix(0, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unpackTo(&bytes.Buffer{}, bytes.NewReader(in), 20); err == nil {
		t.Error("more bytes than permitted")
	}
}

// TestUnpackWhatXZPacks: bytes with repetitions near and far, with other parameters.
func TestUnpackWhatXZPacks(t *testing.T) {
	xz, err := exec.LookPath("xz")
	if err != nil {
		t.Skip("no xz: it makes the kit")
	}
	r := rand.New(rand.NewPCG(1, 2))
	var data []byte
	for len(data) < 300_000 {
		switch r.IntN(4) {
		case 0:
			data = append(data, byte(r.Uint32()))
		case 1:
			data = append(data, bytes.Repeat([]byte{byte(r.Uint32())}, 1+r.IntN(400))...)
		default:
			from := r.IntN(len(data) + 1)
			data = append(data, data[from:min(len(data), from+r.IntN(300))]...)
		}
	}
	for _, option := range []string{"-0", "-5", "--lzma1=lc=0,lp=2,pb=0", "--lzma1=lc=4,pb=4,mode=normal"} {
		cmd := exec.Command(xz, "--format=lzma", "-c", option)
		cmd.Stdin = bytes.NewReader(data)
		in, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", option, err)
		}
		var out bytes.Buffer
		if err := unpackTo(&out, bytes.NewReader(in), 1<<20); err != nil || !bytes.Equal(out.Bytes(), data) {
			t.Errorf("%s: %d bytes of %d, %v", option, out.Len(), len(data), err)
		}
	}
}
