package solvers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// place says where a library is looked for, in this order: its variable, the loader's path,
// a Conda environment, and the Python packages of VIRTUAL_ENV and of the python3 (or python)
// on PATH.
type place struct {
	solver   string
	variable string   // of the environment: the path of the library
	names    []string // for the loader; also below CONDA_PREFIX
	packages []string // patterns below a folder of Python packages
	command  string   // that gets it
}

var (
	placeOfHiGHS = place{
		solver: "HiGHS", variable: "ONNXMEM_HIGHS",
		names:    []string{"libhighs.so.1", "libhighs.so", "libhighs.1.dylib", "libhighs.dylib"},
		packages: []string{"highspy/libhighs.so*", "ortools/.libs/libhighs.so*", "highspy/libhighs*.dylib", "ortools/.libs/libhighs*.dylib"},
		command:  "pip install ortools",
	}
	placeOfORTools = place{
		solver: "CP-SAT", variable: "ONNXMEM_CP_SAT",
		names:    []string{"libortools.so.9", "libortools.so", "libortools.9.dylib", "libortools.dylib"},
		packages: []string{"ortools/.libs/libortools.so*", "ortools/.libs/libortools*.dylib"},
		command:  "pip install ortools",
	}
	placeOfSCIP = place{
		solver: "SCIP", variable: "ONNXMEM_SCIP",
		names:    []string{"libscip.so.10.0", "libscip.so", "libscip.dylib"},
		packages: []string{"ortools/.libs/libscip.so*", "pyscipopt.libs/libscip-*.so*", "ortools/.libs/libscip*.dylib", "pyscipopt/.dylibs/libscip*.dylib"},
		command:  "pip install ortools",
	}
)

// open opens the first such library whose functions are all there.
func (p *place) open(functions map[string]any) (*library, error) {
	if path := os.Getenv(p.variable); path != "" {
		l, err := openLibrary(path)
		if err == nil {
			err = l.bind(functions)
		}
		if err != nil {
			return nil, fmt.Errorf("%s %w: %s: %w", p.solver, ErrMissing, p.variable, err)
		}
		return l, nil
	}
	var damaged error
	for _, path := range p.paths() {
		l, err := openLibrary(path)
		if err == nil {
			if err = l.bind(functions); err == nil {
				return l, nil
			}
		}
		if damaged == nil && !absent(err) {
			damaged = err
		}
	}
	if damaged != nil {
		return nil, fmt.Errorf("%s %w: %w", p.solver, ErrMissing, damaged)
	}
	return nil, fmt.Errorf("%s %w (no %s in the system, VIRTUAL_ENV or the packages of python3): `%s` gets it, or set %s to the library", p.solver, ErrMissing, p.names[0], p.command, p.variable)
}

// paths lists the files to try.
func (p *place) paths() (list []string) {
	list = append(list, p.names...)
	if prefix := os.Getenv("CONDA_PREFIX"); prefix != "" {
		for _, name := range p.names {
			list = append(list, filepath.Join(prefix, "lib", name))
		}
	}
	for _, dir := range pythonFolders() {
		for _, pattern := range p.packages {
			found, _ := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
			list = append(list, found...)
		}
	}
	return list
}

// pythonFolders lists the folders of Python packages.
func pythonFolders() (list []string) {
	if env := os.Getenv("VIRTUAL_ENV"); env != "" {
		list, _ = filepath.Glob(filepath.Join(env, "lib", "python*", "site-packages"))
	}
	return append(list, python3Folders()...)
}

// python3Folders asks the Python on PATH, once.
var python3Folders = sync.OnceValue(func() (list []string) {
	for _, name := range []string{"python3", "python"} {
		out, err := exec.Command(name, "-c", `import site, sysconfig
print("\n".join([sysconfig.get_path("platlib"), *site.getsitepackages(), site.getusersitepackages()]))`).Output()
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(out)) { // a folder may have spaces
			if line = strings.TrimSpace(line); line != "" {
				list = append(list, line)
			}
		}
		return list
	}
	return nil
})
