package main

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
)

// record writes the data and losses of all steps to files.
type record struct{ images, labels, losses *os.File }

// newRecord creates the files; without -record, the record writes nothing.
func newRecord(c settings) (*record, error) {
	r := &record{}
	if !c.record {
		return r, nil
	}
	for name, f := range map[string]**os.File{"images.f32": &r.images, "labels.i64": &r.labels, "losses.f64": &r.losses} {
		var err error
		if *f, err = os.Create(filepath.Join(c.dir, name)); err != nil {
			r.close()
			return nil, err
		}
	}
	return r, nil
}

// add writes one step.
func (r *record) add(images []float32, labels []int64, loss float64) error {
	if r.losses == nil {
		return nil
	}
	return errors.Join(
		binary.Write(r.images, binary.LittleEndian, images),
		binary.Write(r.labels, binary.LittleEndian, labels),
		binary.Write(r.losses, binary.LittleEndian, loss))
}

// close closes the files. Errors of the disk have shown in add, which does not buffer.
func (r *record) close() {
	for _, f := range []*os.File{r.images, r.labels, r.losses} {
		if f != nil {
			f.Close()
		}
	}
}
