package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// standins are modules in whose place the packages of web/standin are. With the true ones, the
// planner takes twice as much: they can run graphs and solve equations.
var standins = map[string]string{
	"github.com/owulveryck/onnx-go": "onnx-go",
	"gorgonia.org/gorgonia":         "gorgonia",
	"gorgonia.org/tensor":           "tensor",
}

const gonum = "gonum.org/v1/gonum"

// graphs are the folders of gonum that have graphs, and the files that are left out since they
// need gonum's matrices.
var graphs = map[string][]string{
	"graph":                 nil,
	"graph/internal/linear": nil,
	"graph/internal/set":    nil,
	"graph/iterator":        nil,
	"graph/network":         {"betweenness.go", "diffusion.go", "distance.go", "hits.go", "network.go", "page.go"},
	"graph/set/uid":         nil,
	"graph/simple":          {"dense_directed_matrix.go", "dense_undirected_matrix.go"},
	"graph/topo":            nil,
	"graph/traverse":        nil,
	"floats/scalar":         nil,
	"internal/order":        nil,
}

// planner builds the planner and returns it.
func planner(version string) ([]byte, error) {
	if err := os.MkdirAll(workDir, 0o777); err != nil {
		return nil, err
	}
	if err := copyGraphs(); err != nil {
		return nil, err
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return nil, err
	}
	mod = fmt.Appendf(mod, "\nreplace %s => ./%s/gonum\n", gonum, workDir)
	for name, folder := range standins {
		to := workDir + "/" + folder
		if err := os.RemoveAll(to); err != nil {
			return nil, err
		}
		if err := copyFolder("web/standin/"+folder, to, nil); err != nil {
			return nil, err
		}
		if err := write(to+"/go.mod", []byte("module "+name+"\n\ngo 1.26.0\n")); err != nil {
			return nil, err
		}
		mod = fmt.Appendf(mod, "replace %s => ./%s\n", name, to)
	}
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		return nil, err
	}
	if err := write(workDir+"/go.mod", mod); err != nil {
		return nil, err
	}
	if err := write(workDir+"/go.sum", sum); err != nil {
		return nil, err
	}
	out := workDir + "/onnxmem.wasm"
	// Functions that are not inlined take a sixth less.
	cmd := exec.Command("go", "build", "-modfile", workDir+"/go.mod", "-trimpath", "-gcflags=all=-l", "-ldflags", "-s -w -X main.version="+version, "-o", out, "./web/wasm")
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
}

// copyGraphs makes a module of gonum's packages for graphs.
func copyGraphs() error {
	from, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", gonum).Output()
	if err != nil {
		return err
	}
	root, to := strings.TrimSpace(string(from)), workDir+"/gonum"
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	for folder, without := range graphs {
		if err := copyFolder(filepath.Join(root, folder), filepath.Join(to, folder), without); err != nil {
			return err
		}
	}
	return write(to+"/go.mod", []byte("module "+gonum+"\n\ngo 1.24.0\n"))
}

// copyFolder copies the sources of a package, but for tests and the files that are named.
func copyFolder(from, to string, without []string) error {
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(from, "*.*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		name := filepath.Base(file)
		if ext := filepath.Ext(name); ext != ".go" && ext != ".s" || strings.HasSuffix(name, "_test.go") || slices.Contains(without, name) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := write(filepath.Join(to, name), text); err != nil {
			return err
		}
	}
	return nil
}

// pack compresses as gzip -9 does.
func pack(b []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(b); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
