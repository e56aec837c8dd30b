package main

import (
	"archive/zip"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/internal/trial"
	"github.com/onnxmem/onnxmem/vm"
)

// perArchive is the number of trials of an archive.
const perArchive = 250

// keeper writes trials that ran into archives of a folder, for a comparison of their outputs:
// NAME/source.onnx, NAME/planned.onnx, NAME/options, and for the k-th run NAME/k/input/TENSOR
// and NAME/k/output/TENSOR. An archive has the suffix .part until it is whole.
type keeper struct {
	folder   string
	archives int
	held     int // in the archive
	path     string
	file     *os.File
	zip      *zip.Writer
}

func (k *keeper) add(t *trial.Trial, r *trial.Result) error {
	if k == nil || r.Kind != trial.Ran {
		return nil
	}
	if k.zip == nil {
		k.path = filepath.Join(k.folder, fmt.Sprintf("%d.zip", k.archives))
		var err error
		if k.file, err = os.Create(k.path + ".part"); err != nil {
			return err
		}
		k.zip = zip.NewWriter(k.file)
		k.archives++
	}
	files := map[string][]byte{"source.onnx": t.Model, "planned.onnx": r.Planned, "options": []byte(strings.Join(t.Options, " "))}
	for i, run := range r.Runs {
		for part, values := range map[string]map[string]vm.Value{"input": run.Inputs, "params": run.Params, "output": run.Outputs} {
			for name, v := range values {
				files[fmt.Sprintf("%d/%s/%s", i, part, name)] = v.Tensor(name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := k.zip.Create(t.Name + "/" + name)
		if err != nil {
			return err
		}
		if _, err := f.Write(files[name]); err != nil {
			return err
		}
	}
	if k.held++; k.held == perArchive {
		return k.close()
	}
	return nil
}

// close ends an archive.
func (k *keeper) close() error {
	if k == nil || k.zip == nil {
		return nil
	}
	err := errors.Join(k.zip.Close(), k.file.Close())
	k.zip, k.held = nil, 0
	if err != nil {
		return err
	}
	return os.Rename(k.path+".part", k.path)
}
