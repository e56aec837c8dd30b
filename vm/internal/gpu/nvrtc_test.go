package gpu

import (
	"os"
	"runtime"
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
	b := newBench(t) // on the fake driver
	for i := range cases {
		c := &cases[i]
		types := c.types
		if types == nil {
			types = []graph.DType{graph.Float32, graph.Float16}
		}
		for _, d := range types {
			b.prepare(c, d)
		}
	}
	b.kernels.generated.finish()
	sources := b.kernels.Queue.Sources()
	t.Setenv("ONNXMEM_NVRTC", library)
	if err := driver.UseCompiler(); err != nil {
		t.Fatal(err)
	}
	archs := strings.Fields(os.Getenv("ONNXMEM_TEST_ARCHS"))
	if len(archs) == 0 {
		archs = []string{"sm_75", "sm_80", "sm_90", "sm_120"}
	}
	for _, arch := range archs {
		began := time.Now()
		bytes := compileAll(t, sources, arch)
		t.Logf("%s: %d sources in %.1f s, %d bytes of cubins", arch, len(sources), time.Since(began).Seconds(), bytes)
	}
}

// compileAll compiles sources on all cores and returns the bytes of their cubins.
func compileAll(t *testing.T, sources []*cuda.Source, arch string) (bytes int) {
	var wait sync.WaitGroup
	var mu sync.Mutex
	turn := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, s := range sources {
		turn <- struct{}{}
		wait.Go(func() {
			defer func() { <-turn }()
			image, err := driver.Compile(s.Text, s.Name, arch, s.Headers, s.Options...)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("%s %v: %v", s.Name, s.Options, err)
			}
			bytes += len(image)
		})
	}
	wait.Wait()
	return bytes
}
