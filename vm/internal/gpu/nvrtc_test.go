package gpu

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
)

// TestNVRTC: NVIDIA's compiler takes every source of the cases, for each architecture of
// ONNXMEM_TEST_ARCHS (by default sm_75, sm_80, sm_90 and sm_120).
// ONNXMEM_TEST_NVRTC is the path of its library (`make nvrtc`
// gets it); it runs in a process of its own, since a process has one compiler.
func TestNVRTC(t *testing.T) {
	library := os.Getenv("ONNXMEM_TEST_NVRTC")
	if library == "" {
		t.Skip("ONNXMEM_TEST_NVRTC names no library of NVRTC (make nvrtc gets one)")
	}
	sources := sourcesOfCases(t)
	useCompiler(t, library)
	archs := strings.Fields(os.Getenv("ONNXMEM_TEST_ARCHS"))
	if len(archs) == 0 {
		archs = testedArchs
	}
	for _, arch := range archs {
		began := time.Now()
		var jobs []compilation
		for _, s := range sources {
			if !tensor(s) || arch != testedArchs[0] {
				jobs = append(jobs, compilation{s, arch})
			}
		}
		bytes := compileAll(t, jobs, func(int) {})
		t.Logf("%s: %d sources in %.1f s, %d bytes of cubins", arch, len(sources), time.Since(began).Seconds(), bytes)
	}
}

// testedArchs are the architectures that the kernels are compiled for in tests.
var testedArchs = []string{"sm_75", "sm_80", "sm_90", "sm_120"}

// TestNVRTCOnce: NVIDIA's compiler takes every source of the cases once, and every file for
// each architecture: the sources of a file, which differ in their types, go to the
// architectures in turn. Beyond those they are compiled to PTX only, which takes half of the
// time: what remains is the assembler's work. What passed is noted in the user's cache
// folder, and is not compiled again while the source, the headers and the compiler are the
// same. TestNVRTC compiles all for each of them.
func TestNVRTCOnce(t *testing.T) {
	library := os.Getenv("ONNXMEM_TEST_NVRTC_ONCE")
	if library == "" {
		t.Skip("ONNXMEM_TEST_NVRTC_ONCE names no library of NVRTC (make nvrtc-once gets one)")
	}
	sources := sourcesOfCases(t)
	useCompiler(t, library)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	cache = filepath.Join(cache, "onnxmem", "nvrtc")
	major, minor, err := driver.CompilerVersion()
	if err != nil {
		t.Fatal(err)
	}
	compiler := fmt.Sprintf("%s %d.%d", library, major, minor)
	var jobs []compilation
	var marks []string
	all := turns(sources)
	for _, c := range all {
		mark := filepath.Join(cache, c.key(compiler))
		if _, err := os.Stat(mark); err != nil {
			jobs, marks = append(jobs, c), append(marks, mark)
		}
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	bytes := compileAll(t, jobs, func(i int) { // at once: what a run that is stopped has done stays done
		if err := os.WriteFile(marks[i], nil, 0o644); err != nil {
			t.Error(err)
		}
	})
	t.Logf("%d compilations of %d sources, %d of them noted as good: %.1f s, %d bytes", len(all), len(sources), len(all)-len(jobs), time.Since(began).Seconds(), bytes)
}

// turns gives the sources of each file to the architectures in turn: each source at least
// once, and each file to each architecture.
func turns(sources []*cuda.Source) (jobs []compilation) {
	files := map[string][]*cuda.Source{}
	var names []string
	for _, s := range sources {
		name := s.Name
		if tensor(s) {
			name += " on tensor cores"
		}
		if files[name] == nil {
			names = append(names, name)
		}
		files[name] = append(files[name], s)
	}
	for _, name := range names {
		of, archs := files[name], testedArchs
		if tensor(of[0]) {
			archs = archs[1:]
		}
		for k := range max(len(of), len(archs)) {
			arch := archs[k%len(archs)]
			if k >= len(archs) {
				arch = strings.Replace(arch, "sm_", "compute_", 1)
			}
			jobs = append(jobs, compilation{of[k%len(of)], arch})
		}
	}
	return jobs
}

// TestTurns: every source has its turn, and every file one for each architecture.
func TestTurns(t *testing.T) {
	var sources []*cuda.Source
	for file, n := range map[string]int{"one.cu": 1, "six.cu": 6} {
		for range n {
			sources = append(sources, &cuda.Source{Name: file})
		}
	}
	had := map[*cuda.Source]bool{}
	for _, file := range []string{"one.cu", "six.cu"} {
		archs := map[string]bool{}
		for _, c := range turns(sources) {
			had[c.source] = true
			archs[c.arch] = archs[c.arch] || c.source.Name == file
		}
		for _, arch := range testedArchs {
			if !archs[arch] {
				t.Errorf("%s is not compiled for %s", file, arch)
			}
		}
	}
	if len(had) != len(sources) {
		t.Errorf("%d of %d sources are compiled", len(had), len(sources))
	}
}

// compilation is a source for an architecture, sm_XY for a cubin or compute_XY for PTX.
type compilation struct {
	source *cuda.Source
	arch   string
}

// key identifies what a compilation depends on.
func (c *compilation) key(compiler string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q %q", compiler, c.arch, c.source.Name, c.source.Options, c.source.Text)
	for _, name := range slices.Sorted(maps.Keys(c.source.Headers)) {
		fmt.Fprintf(h, " %q %q", name, c.source.Headers[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// sourcesOfCases lists the sources that the cases need, and those of kernels that stand for
// several nodes.
func sourcesOfCases(t *testing.T) []*cuda.Source {
	b := newBench(t) // on the fake driver
	for i := range cases {
		c := &cases[i]
		types := c.types
		if types == nil {
			types = []graph.DType{graph.Float32, graph.Float16}
		}
		for _, d := range types {
			b.prepare(c, d)
			b.kernels.plain, b.kernels.TF32 = d != graph.Float32, d == graph.Float32 // for tensor cores, or not
			b.prepare(c, d)
			b.kernels.plain, b.kernels.TF32 = false, false
		}
		if slices.Contains(onTensorCores, c.op) && types[0] == graph.Float32 {
			b.prepare(c, graph.BFloat16)
		}
	}
	x, of := b.empty(2, 4, 8, 8), b.empty(4)
	rows, inverse := b.empty(8, 64), b.empty(8, 1)
	for _, g := range []NormGradient{{X: x, D: x, Scale: of, Out: x, Sums: of, Products: of}, {X: rows, D: rows, Scale: of, Out: rows, Sums: of, Products: of, Inverse: inverse}} {
		if _, err := b.kernels.PrepareNormGradient(&g, Workspace{}); err != nil {
			t.Fatal(err)
		}
	}
	b.kernels.generated.finish()
	return b.kernels.Queue.Sources()
}

// onTensorCores are the operators of products and convolutions.
var onTensorCores = []string{"MatMul", "Gemm", "Conv", "ConvTranspose", graph.SwapDomain + "." + graph.ConvWeightGrad}

// tensor reports whether a source has instructions of tensor cores, which sm_75 lacks.
func tensor(s *cuda.Source) bool { return slices.Contains(s.Options, "-DTENSOR") }

// useCompiler makes a library of NVRTC the process's compiler.
func useCompiler(t *testing.T, library string) {
	t.Setenv("ONNXMEM_NVRTC", library)
	if err := driver.UseCompiler(); err != nil {
		t.Fatal(err)
	}
}

// compileAll compiles on all cores and returns the bytes of what comes out. It calls passed
// for each job that was good, one at a time.
func compileAll(t *testing.T, jobs []compilation, passed func(job int)) (bytes int) {
	var wait sync.WaitGroup
	var mu sync.Mutex
	turn := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, c := range jobs {
		turn <- struct{}{}
		wait.Go(func() {
			defer func() { <-turn }()
			s := c.source
			image, err := driver.Compile(s.Text, s.Name, c.arch, s.Headers, s.Options...)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("%s %v for %s: %v", s.Name, s.Options, c.arch, err)
			} else {
				passed(i)
			}
			bytes += len(image)
		})
	}
	wait.Wait()
	return bytes
}
