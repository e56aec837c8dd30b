package main

import (
	"bytes"
	"crypto/sha256"
	"debug/pe"
	"encoding/binary"
	"fmt"
)

// The layout of what debug/pe does not read: entries of the debug directory, and the record of one
// that names a PDB ("RSDS", 16 bytes of an identifier, an age, a name).
const (
	debugDirectory = 6
	debugEntry     = 28
	entryTime      = 4  // offset of the time in an entry
	entrySize      = 16 // of the record's size, and then its address and place in the file
	entryAt        = 24
	recordID       = 4
	idBytes        = 16
)

// withoutPDB gives a library for Windows the same bytes from each build of the same sources. LLD writes a
// PDB, which nobody gets, in each of them other names of temporary files, and a digest of it as the library's times and identifier. These
// become a digest of the rest.
func withoutPDB(library []byte) ([]byte, error) {
	f, err := pe.NewFile(bytes.NewReader(library))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	header, ok := f.OptionalHeader.(*pe.OptionalHeader64)
	if !ok {
		return nil, fmt.Errorf("a library of 64 bits was expected")
	}
	out := bytes.Clone(library)
	const peOffset, timeInHeader = 0x3c, 8
	places := [][]byte{out[int(binary.LittleEndian.Uint32(out[peOffset:]))+timeInHeader:][:4]}
	dir := header.DataDirectory[debugDirectory]
	for _, s := range f.Sections {
		if dir.Size == 0 || dir.VirtualAddress < s.VirtualAddress || dir.VirtualAddress-s.VirtualAddress >= s.Size {
			continue
		}
		list := out[s.Offset+dir.VirtualAddress-s.VirtualAddress:][:dir.Size]
		for ; len(list) >= debugEntry; list = list[debugEntry:] {
			places = append(places, list[entryTime:][:4])
			record := out[binary.LittleEndian.Uint32(list[entryAt:]):][:binary.LittleEndian.Uint32(list[entrySize:])]
			if bytes.HasPrefix(record, []byte("RSDS")) {
				places = append(places, record[recordID:][:idBytes])
			}
		}
	}
	for _, p := range places {
		clear(p)
	}
	digest := sha256.Sum256(out)
	for _, p := range places {
		copy(p, digest[:])
	}
	return out, nil
}
