// Gpu checks and measures the plans on an NVIDIA GPU. It is the program `run` of the kit
// that `make gpu-kit` builds, which needs nothing on a machine but the driver: no Go, no
// Python, no network. It writes results.json (docs/formats/gpu-results.md describes it), results.md and
// logs. docs/gpu.md says how to use it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

var version = "dev"

// options are the flags; each may also be a variable of the environment.
type options struct {
	Parts     string        `env:"PARTS" placeholder:"'NAME ...'" help:"The parts to run (default: all)."`
	Networks  string        `env:"NETWORKS" placeholder:"'NAME ...'" help:"The networks, most important first; NAME:SETTING=VALUE,... changes one (default: all)."`
	Batch     int           `env:"BATCH" default:"8" help:"The batch (default 8)."`
	Steps     int           `env:"STEPS" default:"5" help:"The steps of a run; the fastest counts (default 5)."`
	Out       string        `env:"OUT" placeholder:"FOLDER" help:"Where results are written (default: the kit's folder)."`
	Work      string        `env:"WORK" placeholder:"FOLDER" help:"Where the kit is unpacked and models are written (default: onnxmem-gpu in the folder of temporary files)."`
	Kit       string        `placeholder:"FOLDER" help:"The kit (default: the folder of this program)."`
	Device    string        `env:"DEVICE" default:"cuda" help:"The GPU: cuda, cuda:N or cuda:UUID (default cuda)."`
	Tests     string        `env:"TESTS" placeholder:"REGEXP" help:"The tests to run (default: all that use the device)."`
	TimeLimit time.Duration `env:"TIME_LIMIT" default:"9m" help:"The time for everything; parts that get none are cut (default 9m)."`
	Resume    bool          `env:"RESUME" help:"Take over what an earlier run measured in the part precisions, from results.json of the folder of results."`
	Fake      string        `env:"FAKE" placeholder:"LIB" help:"Use this fake driver, which runs kernels on the CPU, to try the program out."`
	LinkBytes int64         `hidden:"" default:"134217728"`
	Probe     bool          `hidden:"" help:"Describe the device as JSON, and end."`

	began time.Time
	say   func(format string, args ...any)
}

func main() {
	o := &options{began: time.Now(), say: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }}
	kong.Parse(o, kong.Name("run"), kong.Description("Check and measure onnxmem on an NVIDIA GPU. Parts, in this order: "+strings.Join(allParts(), " ")+"."))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.Probe {
		d, err := probe(o.Device, o.LinkBytes)
		if d != nil {
			err = errors.Join(err, json.NewEncoder(os.Stdout).Encode(d))
		}
		exit(err)
		return
	}
	d, err := o.measure(ctx)
	if err == nil && d.failures() > 0 {
		err = fmt.Errorf("%d parts failed", d.failures())
	}
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

// measure does everything. What fails on the way is in the document.
func (o *options) measure(ctx context.Context) (*document, error) {
	if o.Batch < 1 || o.Steps < 1 {
		return nil, fmt.Errorf("batch %d, %d steps: expected 1 or more of each", o.Batch, o.Steps)
	}
	list := parts
	if o.Parts != "" {
		var err error
		if list, err = chooseParts(strings.Fields(o.Parts)); err != nil {
			return nil, err
		}
	}
	var nets []network
	for _, text := range strings.Fields(o.Networks) {
		n, err := parseNetwork(text)
		if err != nil {
			return nil, err
		}
		nets = append(nets, n)
	}
	if err := o.prepare(); err != nil {
		return nil, err
	}
	if o.TimeLimit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, o.began.Add(o.TimeLimit))
		defer stop()
	}
	d := &document{
		Format: "onnxmem/gpu", Version: 1, Tool: "onnxmem " + version, Started: o.began.UTC().Format(time.RFC3339), Fake: o.Fake != "",
		Machine: machine{runtime.GOOS, runtime.GOARCH, runtime.NumCPU()}, Parts: []*part{}, Suites: []suite{}, Runs: []*run{},
	}
	m := newMeasurer(o, d, nets)
	if o.Resume {
		if err := m.takeOver(); err != nil {
			return d, err
		}
	}
	if !m.open(ctx) {
		return d, errors.New(d.Parts[0].Message)
	}
	if nets == nil {
		if err := m.builtIn(ctx); err != nil {
			return d, err
		}
	}
	m.all(ctx, list)
	return d, nil
}

// headerOf is the folder of the header that a fake driver compiles kernels with: beside the
// library or, where tests of package fake built it, above.
func headerOf(library string) string {
	dir := filepath.Dir(library)
	if _, err := os.Stat(filepath.Join(dir, "cuda_cpu.h")); err != nil {
		return filepath.Dir(dir)
	}
	return dir
}

// prepare finds the folders and unpacks the kit.
func (o *options) prepare() (err error) {
	if o.Kit == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		o.Kit = filepath.Dir(self)
	}
	if o.Out == "" {
		o.Out = o.Kit
	}
	if o.Work == "" {
		o.Work = filepath.Join(os.TempDir(), "onnxmem-gpu")
	}
	for _, folder := range []*string{&o.Kit, &o.Out, &o.Work} {
		if *folder, err = filepath.Abs(*folder); err != nil {
			return err
		}
	}
	for _, log := range []string{"tests-gpu.log", "tests-vm.log", "sanitizer.log"} { // of an earlier run: they are appended to
		if err := os.Remove(filepath.Join(o.Out, log)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return err
	}
	if err := unpack(o.Kit, o.Work); err != nil {
		return err
	}
	data := filepath.Join(o.Work, "src", "testdata")
	if _, err := os.Stat(data); err == nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(o.Kit, "testdata")); err != nil {
		return nil // a kit without tests
	}
	return os.CopyFS(data, os.DirFS(filepath.Join(o.Kit, "testdata")))
}

// environment is that of the programs of the kit. Its own NVRTC is used unless the
// environment names another one.
func (o *options) environment() []string {
	env := os.Environ()
	switch nvrtc, _ := filepath.Glob(filepath.Join(o.Work, "libnvrtc.so.*")); {
	case o.Fake != "":
		env = append(env, "ONNXMEM_LIBCUDA="+o.Fake, "ONNXMEM_NVRTC="+o.Fake, "ONNXMEM_CUBLAS=off", "ONNXMEM_CUDNN=off")
		if os.Getenv("FAKECUDA_INCLUDE") == "" {
			env = append(env, "FAKECUDA_INCLUDE="+headerOf(o.Fake))
		}
		if cxx, err := exec.LookPath("c++"); err == nil {
			env = append(env, "FAKECUDA_CXX="+cxx)
		}
	default:
		env = append(env, "ONNXMEM_TEST_GPU=1")
		if len(nvrtc) > 0 {
			env = append(env, "ONNXMEM_CUDA_PATH="+firstSet(os.Getenv("ONNXMEM_CUDA_PATH"), o.Work))
		}
	}
	return env
}

func firstSet(list ...string) string {
	i := slices.IndexFunc(list, func(s string) bool { return s != "" })
	return list[i]
}

// open describes the device, in a process of its own. It reports false if there is none.
func (m *measurer) open(ctx context.Context) bool {
	began := time.Now()
	p := &part{Name: "device", Status: done}
	m.doc.Parts = append(m.doc.Parts, p)
	self, err := os.Executable()
	if err == nil {
		var out []byte
		limited, stop := context.WithTimeout(ctx, 2*time.Minute)
		out, err = m.command(limited, m.work, self, "--probe", "--device", m.opt.Device, fmt.Sprintf("--link-bytes=%d", m.opt.LinkBytes))
		stop()
		if len(out) > 0 {
			err = errors.Join(err, json.Unmarshal(out, &m.doc.Device))
		}
	}
	if err != nil {
		p.Status, p.Message = failed, err.Error()
	}
	p.Seconds = time.Since(began).Seconds()
	m.save()
	return m.doc.Device != nil
}

// firstNetworks are measured first; the others follow in the order of their names.
var firstNetworks = []string{"resnet50", "bert", "mobilenet_v2", "vit_b_16"}

// builtIn takes all built-in networks.
func (m *measurer) builtIn(ctx context.Context) error {
	var known struct {
		Networks []struct {
			Name string `json:"name"`
		} `json:"networks"`
	}
	if err := m.onnxmem(ctx, &known, "model", "--json"); err != nil {
		return err
	}
	names := slices.Clone(firstNetworks)
	for _, n := range known.Networks {
		if !slices.Contains(names, n.Name) {
			names = append(names, n.Name)
		}
	}
	for _, name := range names {
		n, err := parseNetwork(name)
		if err != nil {
			return err
		}
		m.networks = append(m.networks, n)
	}
	return nil
}
