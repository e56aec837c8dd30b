package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
)

// packed is "onnxmem, onnxmem, onnxmem!\n" as `xz --format=lzma` writes it.
const packed = "5d00008000ffffffffffffffff00379bacf06f975ef30adaac923c8f22fdfffffbc82000"

func TestUnpackLZMA(t *testing.T) {
	in, err := hex.DecodeString(packed)
	if err != nil {
		t.Fatal(err)
	}
	out, err := unpackLZMA(in, 1000)
	if err != nil || string(out) != "onnxmem, onnxmem, onnxmem!\n" {
		t.Fatalf("got %q, %v", out, err)
	}
	for name, bad := range map[string][]byte{
		"nothing": nil, "a cut file": in[:len(in)-8], "wrong properties": append([]byte{225}, in[1:]...),
		"a size that is too large": append(append([]byte{in[0], 0, 0, 1, 0}, 255, 255, 255, 255, 0, 0, 0, 0), in[13:]...),
	} {
		if _, err := unpackLZMA(bad, 1000); !errors.Is(err, errLZMA) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := unpackLZMA(in, 20); !errors.Is(err, errLZMA) {
		t.Errorf("more bytes than permitted: %v", err)
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
		out, err := unpackLZMA(in, 1<<20)
		if err != nil || !bytes.Equal(out, data) {
			t.Errorf("%s: %d bytes of %d, %v", option, len(out), len(data), err)
		}
	}
}

// FuzzUnpackLZMA: damaged data give an error, or other bytes of at most the permitted number.
func FuzzUnpackLZMA(f *testing.F) {
	in, _ := hex.DecodeString(packed)
	f.Add(in)
	f.Add([]byte(strings.Repeat("\x00", 40)))
	f.Fuzz(func(t *testing.T, in []byte) {
		if out, err := unpackLZMA(in, 1<<16); err == nil && len(out) > 1<<16 {
			t.Errorf("%d bytes", len(out))
		}
	})
}
