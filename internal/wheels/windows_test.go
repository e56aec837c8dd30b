package main

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestWithoutPDB: libraries that differ in what LLD takes from a PDB become the same, and any other difference stays.
func TestWithoutPDB(t *testing.T) {
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program.exe")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() { println(1) }\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("go", "build", "-trimpath", "-o", program, source)
	c.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	plain, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	// linked is the program as LLD would link it: with the times and the identifier of a PDB.
	linked := func(digest uint32) []byte {
		out := bytes.Clone(plain)
		f, err := pe.NewFile(bytes.NewReader(plain))
		if err != nil {
			t.Fatal(err)
		}
		section := f.Section(".rdata")
		header := int(binary.LittleEndian.Uint32(out[0x3c:]))
		binary.LittleEndian.PutUint32(out[header+8:], digest)
		const optional, directories = 24, 112 // behind the signature and the header; in the optional header
		entry := out[header+optional+directories+8*debugDirectory:]
		binary.LittleEndian.PutUint32(entry, section.VirtualAddress)
		binary.LittleEndian.PutUint32(entry[4:], debugEntry)
		list := out[section.Offset:]
		binary.LittleEndian.PutUint32(list[entryTime:], digest)
		binary.LittleEndian.PutUint32(list[entrySize:], 32)
		binary.LittleEndian.PutUint32(list[entryAt:], section.Offset+debugEntry)
		record := list[debugEntry:]
		copy(record, "RSDS")
		binary.LittleEndian.PutUint32(record[recordID:], digest)
		return out
	}
	one, err := withoutPDB(linked(1))
	if err != nil {
		t.Fatal(err)
	}
	two, err := withoutPDB(linked(2))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, two) {
		t.Error("two digests of a PDB give two libraries")
	}
	if again, err := withoutPDB(one); err != nil || !bytes.Equal(again, one) {
		t.Errorf("once more, it is another library (%v)", err)
	}
	other := linked(1)
	other[len(other)-1] ^= 1
	if three, err := withoutPDB(other); err != nil || bytes.Equal(three[:len(three)-1], one[:len(one)-1]) {
		t.Errorf("another library has the same identifier (%v)", err)
	}
	if _, err := withoutPDB([]byte("no library")); err == nil {
		t.Error("expected an error for what is no library")
	}
}
