package cuda

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

	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
)

// Source is CUDA C that is compiled to one module.
type Source struct {
	Name    string            // for messages
	Text    string            // the program
	Headers map[string]string // what it includes: its cubin depends on all of them
	Options []string          // of NVRTC, beside the architecture
}

// module is a source that was compiled for a device, and loaded there.
type module struct {
	source    *Source
	image     []byte
	cached    bool // the image is from the cache
	err       error
	loaded    driver.Module
	functions map[string]driver.Function
}

// target returns the architecture to compile for: the device's own, which gives a cubin
// that any driver of this major version takes, or, if NVRTC does not know it, PTX of the
// newest older one.
func (d *Device) target() (string, error) {
	archs, err := driver.CompilerArchs()
	if err != nil {
		return "", err
	}
	if slices.Contains(archs, d.arch) {
		return fmt.Sprintf("sm_%d", d.arch), nil
	}
	for _, a := range slices.Backward(archs) {
		if a < d.arch {
			return fmt.Sprintf("compute_%d", a), nil
		}
	}
	return "", fmt.Errorf("%s: compute capability %d.%d is older than the oldest that %s compiles for (%d.%d): an older release of NVRTC is needed",
		d.name, d.arch/10, d.arch%10, driver.CompilerPath(), archs[0]/10, archs[0]%10)
}

// key identifies a compiled source: everything that its cubin depends on.
func (s *Source) key(target string) (string, error) {
	major, minor, err := driver.CompilerVersion()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	part := func(text string) { fmt.Fprintf(h, "%d\n%s\n", len(text), text) }
	part(fmt.Sprintf("NVRTC %d.%d %s", major, minor, target))
	part(driver.CompilerPath())
	part(s.Text)
	for _, o := range s.Options {
		part(o)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		part(name)
		part(s.Headers[name])
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// modulesOf compiles and loads sources, those that are not yet loaded on as many cores as
// there are. Compiled sources are kept in the user's cache folder. It needs the context.
func (d *Device) modulesOf(sources []*Source) (map[*Source]*module, error) {
	target, err := d.target()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	of := make(map[*Source]*module, len(sources))
	var fresh []string
	for _, s := range sources {
		key, err := s.key(target)
		if err != nil {
			return nil, err
		}
		m := d.modules[key]
		if m == nil {
			m = &module{source: s, functions: map[string]driver.Function{}}
			d.modules[key] = m
			fresh = append(fresh, key)
		}
		of[s] = m
	}
	d.compile(fresh, target)
	for _, key := range fresh {
		m := d.modules[key]
		if m.err == nil {
			m.load(key, target)
		}
		if m.err != nil {
			delete(d.modules, key)
			return nil, fmt.Errorf("the kernels of %s: %w", m.source.Name, m.err)
		}
	}
	return of, nil
}

// load loads the image. One from the cache that the driver refuses is damaged: the source
// is compiled again.
func (m *module) load(key, target string) {
	defer func() { m.image = nil }()
	if m.loaded, m.err = driver.LoadModule(m.image); m.err == nil || !m.cached {
		return
	}
	if m.image, m.err = m.source.compile(key, target); m.err == nil {
		m.loaded, m.err = driver.LoadModule(m.image)
	}
}

// compile makes the images of modules.
func (d *Device) compile(keys []string, target string) {
	var wait sync.WaitGroup
	turn := make(chan struct{}, runtime.GOMAXPROCS(0))
	done := 0 // under show
	var show sync.Mutex
	for _, key := range keys {
		m := d.modules[key]
		turn <- struct{}{}
		wait.Go(func() {
			defer func() { <-turn }()
			if m.image = readCache(key); m.image != nil {
				m.cached = true
			} else {
				m.image, m.err = m.source.compile(key, target)
			}
			if d.Compiled != nil {
				show.Lock()
				defer show.Unlock()
				done++
				d.Compiled(done, len(keys))
			}
		})
	}
	wait.Wait()
}

// compile compiles the source, and keeps the result in the cache.
func (s *Source) compile(key, target string) ([]byte, error) {
	b, err := driver.Compile(s.Text, s.Name, target, s.Headers, s.Options...)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(target, "compute_") {
		b = append(b, 0)
	}
	if path := cachePath(key); path != "" && os.MkdirAll(filepath.Dir(path), 0o755) == nil {
		_ = keep(path, b) // a cache that cannot be written costs time, nothing else
	}
	return b, nil
}

// readCache returns a compiled source of the cache; nil if it is not there.
func readCache(key string) []byte {
	path := cachePath(key)
	if path == "" {
		return nil
	}
	b, err := os.ReadFile(path)
	if err != nil || len(b) == 0 {
		return nil
	}
	return b
}

// keep writes a file of the cache.
func keep(path string, b []byte) error {
	f, err := atomicfile.Create(path, 0o644)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.Write(b); err != nil {
		return err
	}
	return f.Commit(false)
}

// cachePath is the file of a compiled source; "" if the user has no cache folder.
func cachePath(key string) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "onnxmem", "cuda", key+".cubin")
}

// function returns a kernel of a loaded module.
func (m *module) function(name string) (driver.Function, error) {
	f, ok := m.functions[name]
	if !ok {
		var err error
		if f, err = m.loaded.Function(name); err != nil {
			return 0, fmt.Errorf("%s: %w", m.source.Name, err)
		}
		m.functions[name] = f
	}
	return f, nil
}
