package fake_test

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/cuda/fake"
)

const kernels = `
#ifndef CUDA_ON_CPU
#define KERNEL(name, params) extern "C" __global__ void name params
#define DYNAMIC_SHARED(T, name) extern __shared__ T name[]
#endif
struct Box { int n; float by; };
KERNEL(scale, (float *y, const float *x, Box b)) {
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < b.n; i += gridDim.x * blockDim.x) y[i] = x[i] * b.by;
}
KERNEL(sum, (float *y, const float *x, int n)) {
	__shared__ float part[4];
	float v = 0;
	for (int i = threadIdx.x; i < n; i += blockDim.x) v += x[i];
	for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
	if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
	__syncthreads();
	if (threadIdx.x == 0) y[0] = part[0] + part[1] + part[2] + part[3];
}
KERNEL(reverse, (float *y, const float *x)) {
	DYNAMIC_SHARED(float, held);
	held[threadIdx.x] = x[threadIdx.x];
	__syncthreads();
	y[threadIdx.x] = held[blockDim.x - 1 - threadIdx.x];
}
KERNEL(votes, (unsigned *y, const int *x)) {
	unsigned all = __ballot_sync(0xffffffffu, x[threadIdx.x] > 3), same = __match_any_sync(0xffffffffu, x[threadIdx.x] % 2);
	y[threadIdx.x] = all ^ same;
}
KERNEL(uneven, (float *y)) { if (threadIdx.x < 7) __syncthreads(); else while (threadIdx.x == 20) __syncwarp(); }
KERNEL(behind, (float *y, int n)) { y[n + threadIdx.x * 1024] = 1; }
KERNEL(quotient, (int *y, int n)) { y[0] = n / (int)(threadIdx.x - 3); }
KERNEL(large, (float *y)) { volatile float held[1 << 14]; for (int i = 0; i < (1 << 14) - 64; i++) held[i] = i; y[0] = held[7]; }
KERNEL(least, (float *y)) { y[0] = max(y[0], 1.0f); y[1] = min(2.0f, y[0] / 0.0f - y[0] / 0.0f); }
KERNEL(racy, (float *y)) { atomicAdd(y, 1.0f); }
`

// gpu is the fake with the kernels above, and one block of memory.
type gpu struct {
	t      *testing.T
	fake   *fake.Fake
	module driver.Module
	stream driver.Stream
	at     driver.Ptr
}

const blockBytes = 1 << 16

func open(t *testing.T) *gpu {
	t.Helper()
	g := &gpu{t: t, fake: fake.Use(t)}
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	g.must(driver.Load())
	g.must(driver.LoadCompiler(0))
	dev, err := driver.GetDevice(0)
	g.must(err)
	c, err := dev.RetainPrimary()
	g.must(err)
	g.must(c.SetCurrent())
	t.Cleanup(func() { g.must(driver.Context(0).SetCurrent()) }) // the thread goes on to other goroutines
	image, err := driver.Compile(kernels, "test.cu", "sm_90", nil)
	g.must(err)
	g.module, err = driver.LoadModule(image)
	g.must(err)
	g.stream, err = driver.NewStream()
	g.must(err)
	g.at, err = driver.Alloc(blockBytes)
	g.must(err)
	t.Cleanup(func() {
		g.must(g.stream.Destroy())
		g.must(driver.Free(g.at))
	})
	return g
}

func (g *gpu) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// run puts a kernel on a stream. Parameters are pointers.
func (g *gpu) run(s driver.Stream, name string, blocks, threads uint32, shared int, params ...unsafe.Pointer) error {
	f, err := g.module.Function(name)
	g.must(err)
	l := driver.PrepareLaunch(f, driver.Dim3{X: blocks, Y: 1, Z: 1}, driver.Dim3{X: threads, Y: 1, Z: 1}, shared, unsafe.Pointer(unsafe.SliceData(params)))
	err = l.Run(s)
	runtime.KeepAlive(params)
	return err
}

func at[T any](v T) unsafe.Pointer { return unsafe.Pointer(&v) }

// TestKernels: loops, barriers, shuffles, votes, shared memory and structs by value compute
// what CUDA computes, in every order of work.
func TestKernels(t *testing.T) {
	g := open(t)
	for _, mode := range []string{"eager", "lazy", "random:1", "random:7"} {
		for _, strict := range []bool{false, true} {
			g.fake.Mode(mode)
			g.fake.Strict(strict)
			x := make([]float32, 256)
			for i := range x {
				x[i] = float32(i)
			}
			y, z := make([]float32, 256), make([]float32, 1)
			box := struct {
				n  int32
				by float32
			}{256, 0.5}
			n := int32(256)
			a, b := g.at, g.at+4096
			g.must(driver.Upload(a, unsafe.Pointer(&x[0]), 1024, g.stream))
			g.must(g.run(g.stream, "scale", 3, 64, 0, at(b), at(a), at(box)))
			g.must(g.run(g.stream, "reverse", 1, 256, 1024, at(a), at(b)))
			g.must(g.run(g.stream, "sum", 1, 128, 0, at(b), at(a), at(n)))
			g.must(driver.Download(unsafe.Pointer(&y[0]), a, 1024, g.stream))
			g.must(driver.Download(unsafe.Pointer(&z[0]), b, 4, g.stream))
			g.must(g.stream.Synchronize())
			if y[0] != 127.5 || y[255] != 0 || z[0] != 255*128/2 {
				t.Errorf("%s, strict %v: got %v, %v, %v", mode, strict, y[0], y[255], z[0])
			}
		}
	}
	g.fake.Strict(false)
	list := make([]int32, 32)
	for i := range list {
		list[i] = int32(i)
	}
	votes := make([]uint32, 32)
	g.must(driver.UploadNow(g.at, unsafe.Pointer(&list[0]), 128))
	g.must(g.run(g.stream, "votes", 1, 32, 0, at(g.at+4096), at(g.at)))
	g.must(g.stream.Synchronize())
	g.must(driver.DownloadNow(unsafe.Pointer(&votes[0]), g.at+4096, 128))
	if votes[0] != 0xfffffff0^0x55555555 || votes[1] != 0xfffffff0^0xaaaaaaaa {
		t.Errorf("votes %x", votes)
	}
}

// TestNotANumber: CUDA's max and min of reals leave out a NaN, which fresh memory is.
func TestNotANumber(t *testing.T) {
	g := open(t)
	y := make([]float32, 2)
	g.must(g.run(g.stream, "least", 1, 1, 0, at(g.at)))
	g.must(driver.Download(unsafe.Pointer(&y[0]), g.at, 8, g.stream))
	g.must(g.stream.Synchronize())
	if y[0] != 1 || y[1] != 2 {
		t.Errorf("got %v, want 1 and 2", y)
	}
}

// TestForgottenEvent: a stream that does not wait for another one reads what was there
// before, in the lazy mode and in some random order; the eager mode misses it.
func TestForgottenEvent(t *testing.T) {
	g := open(t)
	other, err := driver.NewStream()
	g.must(err)
	defer func() { g.must(other.Destroy()) }()
	made, err := driver.NewEvent(false)
	g.must(err)
	wrong := func(mode string, forget bool) bool {
		g.fake.Mode(mode)
		x, y := []float32{3}, []float32{0}
		box := struct {
			n  int32
			by float32
		}{1, 2}
		g.must(driver.Fill32(g.at, 0, 2048, g.stream))
		g.must(g.stream.Synchronize())
		g.must(driver.Upload(g.at, unsafe.Pointer(&x[0]), 4, g.stream))
		g.must(g.run(g.stream, "scale", 1, 32, 0, at(g.at+4096), at(g.at), at(box)))
		g.must(made.Record(g.stream))
		if !forget {
			g.must(other.Wait(made))
		}
		g.must(driver.Download(unsafe.Pointer(&y[0]), g.at+4096, 4, other))
		g.must(other.Synchronize())
		g.must(g.stream.Synchronize())
		return y[0] != 6
	}
	found := 0
	for _, mode := range []string{"lazy", "random:1", "random:2", "random:3", "random:4", "random:5"} {
		if wrong(mode, false) {
			t.Errorf("%s: wrong although the stream waits", mode)
		}
		if wrong(mode, true) {
			found++
		} else if mode == "lazy" {
			t.Error("lazy: a forgotten event went unnoticed")
		}
	}
	if found < 2 || wrong("eager", true) {
		t.Errorf("%d of the orders show the forgotten event", found)
	}
}

// TestCapturedStreams: a second stream joins a recording by an event and is joined again. An
// event that is forgotten on the way shows in the lazy order, one at the end is refused.
func TestCapturedStreams(t *testing.T) {
	g := open(t)
	other, err := driver.NewStream()
	g.must(err)
	forked, err := driver.NewEvent(false)
	g.must(err)
	made, err := driver.NewEvent(false)
	g.must(err)
	box := struct {
		n  int32
		by float32
	}{1, 2}
	a, b, c := g.at, g.at+256, g.at+512
	// replay records b = 2a on the other stream and c = 2b on the first, and returns c.
	replay := func(waits, joins bool) (float32, error) {
		x, y := []float32{3}, []float32{0}
		g.must(driver.Fill32(b, 0, 128, g.stream))
		g.must(driver.Upload(a, unsafe.Pointer(&x[0]), 4, g.stream))
		g.must(g.stream.Synchronize())
		g.must(g.stream.BeginCapture())
		g.must(forked.Record(g.stream))
		g.must(other.Wait(forked))
		g.must(g.run(other, "scale", 1, 1, 0, at(b), at(a), at(box)))
		g.must(made.Record(other))
		if waits {
			g.must(g.stream.Wait(made))
		}
		g.must(g.run(g.stream, "scale", 1, 1, 0, at(c), at(b), at(box)))
		if joins {
			g.must(g.stream.Wait(made))
		}
		graph, err := g.stream.EndCapture()
		if err != nil {
			return 0, err
		}
		exec, err := graph.Instantiate()
		g.must(err)
		g.must(exec.Launch(g.stream))
		g.must(driver.Download(unsafe.Pointer(&y[0]), c, 4, g.stream))
		g.must(g.stream.Synchronize())
		g.must(errors.Join(graph.Destroy(), exec.Destroy()))
		return y[0], nil
	}
	for _, mode := range []string{"eager", "lazy", "random:1", "random:2", "random:3"} {
		g.fake.Mode(mode)
		if y, err := replay(true, false); err != nil || y != 12 {
			t.Errorf("%s: got %v, %v, want 12", mode, y, err)
		}
	}
	g.fake.Mode("lazy")
	if y, err := replay(false, true); err != nil || y == 12 {
		t.Errorf("a forgotten event in a recording: got %v, %v, want another number than 12", y, err)
	}
	if _, err := replay(false, false); err == nil || !strings.Contains(err.Error(), "CUDA_ERROR_STREAM_CAPTURE_UNJOINED") {
		t.Errorf("a stream that is not joined: %v", err)
	}
	g.must(errors.Join(forked.Destroy(), made.Destroy(), other.Destroy()))
}

// TestEventOfTwoStreams: who waits for an event waits for what was recorded then, though
// another stream records the event again, or it is destroyed.
func TestEventOfTwoStreams(t *testing.T) {
	g := open(t)
	var streams [2]driver.Stream
	for i := range streams {
		var err error
		streams[i], err = driver.NewStream()
		g.must(err)
	}
	e, err := driver.NewEvent(false)
	g.must(err)
	y := []uint32{0}
	g.must(driver.Fill32(g.at, 7, 1, streams[0]))
	g.must(e.Record(streams[0]))
	g.must(g.stream.Wait(e))
	g.must(driver.Download(unsafe.Pointer(&y[0]), g.at, 4, g.stream))
	g.must(e.Record(streams[1]))
	g.must(streams[1].Synchronize())
	g.must(e.Destroy())
	g.must(g.stream.Synchronize())
	if y[0] != 7 {
		t.Errorf("got %#x, want 7", y[0])
	}
	if err := e.Record(g.stream); err == nil || !strings.Contains(err.Error(), "CUDA_ERROR_INVALID_HANDLE") {
		t.Errorf("a destroyed event: %v", err)
	}
	g.must(errors.Join(streams[0].Destroy(), streams[1].Destroy()))
}

// TestErrors: calls that CUDA refuses are refused, with its names.
func TestErrors(t *testing.T) {
	g := open(t)
	box := [2]int32{}
	thread := make(chan error)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends
		g.must(driver.Context(0).SetCurrent())
		_, err := driver.Alloc(64)
		thread <- err
	}()
	captured := func() error {
		g.must(g.stream.BeginCapture())
		if _, err := driver.Alloc(64); err == nil {
			t.Error("an allocation while a stream is recorded: no error")
		}
		_, err := g.stream.EndCapture()
		return err
	}
	g.fake.FailAllocation(2)
	p, err := driver.Alloc(64)
	g.must(err)
	_, second := driver.Alloc(64)
	if !errors.Is(second, driver.ErrOutOfMemory) {
		t.Errorf("the allocation that was to fail: %v", second)
	}
	g.must(driver.Free(p))
	g.fake.Memory(1 << 20)
	_, large := driver.Alloc(1 << 21)
	g.fake.Memory(8 << 30)
	_, missing := g.module.Function("nothing")
	_, image := driver.LoadModule(make([]byte, 64))
	_, option := driver.Compile(kernels, "test.cu", "sm_90", nil, "--no-such-option")
	_, syntax := driver.Compile("KERNEL(", "test.cu", "sm_90", nil)
	for _, c := range []struct {
		what, want string
		err        error
	}{
		{"no current context", "CUDA_ERROR_INVALID_CONTEXT", <-thread},
		{"too many threads", "CUDA_ERROR_INVALID_VALUE", g.run(g.stream, "scale", 1, 2000, 0, at(g.at), at(g.at), at(box))},
		{"too much shared memory", "CUDA_ERROR_INVALID_VALUE", g.run(g.stream, "scale", 1, 32, 50000, at(g.at), at(g.at), at(box))},
		{"a copy beyond a block", "CUDA_ERROR_INVALID_VALUE", driver.Copy(g.at+blockBytes-64, g.at, 65, g.stream)},
		{"out of memory", "CUDA_ERROR_OUT_OF_MEMORY", large},
		{"a missing kernel", "CUDA_ERROR_NOT_FOUND", missing},
		{"a damaged image", "CUDA_ERROR_INVALID_IMAGE", image},
		{"a broken recording", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", captured()},
		{"an unknown option", "NVRTC_ERROR_INVALID_OPTION", option},
		{"a wrong program", "test.cu", syntax},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.what, c.err, c.want)
		}
	}
}

// TestCapture: a recorded step runs again at each launch, and not while it is recorded.
func TestCapture(t *testing.T) {
	g := open(t)
	one := []float32{1}
	g.must(driver.UploadNow(g.at, unsafe.Pointer(&one[0]), 4))
	box := struct {
		n  int32
		by float32
	}{1, 2}
	g.must(g.stream.BeginCapture())
	g.must(g.run(g.stream, "scale", 1, 32, 0, at(g.at), at(g.at), at(box)))
	recorded, err := g.stream.EndCapture()
	g.must(err)
	exec, err := recorded.Instantiate()
	g.must(err)
	g.must(recorded.Destroy())
	for range 3 {
		g.must(exec.Launch(g.stream))
	}
	g.must(g.stream.Synchronize())
	g.must(exec.Destroy())
	g.must(driver.DownloadNow(unsafe.Pointer(&one[0]), g.at, 4))
	if one[0] != 8 {
		t.Errorf("three replays of a doubling: %v, want 8", one[0])
	}
}

// TestCounters: allocations, launches and atomic sums of reals are counted.
func TestCounters(t *testing.T) {
	g := open(t)
	before := g.fake.Counters()
	p, err := driver.Alloc(1000)
	g.must(err)
	g.must(g.run(g.stream, "racy", 1, 5, 0, at(p)))
	g.must(g.stream.Synchronize())
	c := g.fake.Counters()
	if c.LiveBytes != before.LiveBytes+1000 || c.Launches != before.Launches+1 || c.FloatAtomics != before.FloatAtomics+5 {
		t.Errorf("before %+v, after %+v", before, c)
	}
	g.must(driver.Free(p))
}

// TestOptions: macros come in NVRTC's two forms, and what is kept on disk depends on them.
func TestOptions(t *testing.T) {
	g := open(t)
	for want, options := range map[float32][]string{3: {"-DVALUE=3"}, 4: {"-D", "VALUE=4", "-Isomewhere", "--fmad=false"}} {
		image, err := driver.Compile("KERNEL(put, (float *y)) { y[0] = VALUE; }", "put.cu", "sm_90", nil, options...)
		g.must(err)
		g.module, err = driver.LoadModule(image)
		g.must(err)
		y := []float32{0}
		g.must(g.run(g.stream, "put", 1, 1, 0, at(g.at)))
		g.must(driver.Download(unsafe.Pointer(&y[0]), g.at, 4, g.stream))
		g.must(g.stream.Synchronize())
		if y[0] != want {
			t.Errorf("%v: got %v, want %v", options, y[0], want)
		}
	}
}

// TestFaults: what would hang or corrupt a GPU ends the process with the kernel's name.
func TestFaults(t *testing.T) {
	if name := os.Getenv("FAKE_FAULT"); name != "" {
		fault(open(t), name)
		t.Fatal("nothing happened")
	}
	fake.Use(t) // builds it
	for name, want := range map[string]string{
		"uneven":   "threads wait at different barriers",
		"behind":   "fake cuda: behind: block 0,0,0: thread",
		"close":    "fake cuda: behind: block 0,0,0: thread 0 touches",
		"touch":    "SIGSEGV",
		"quotient": "fake cuda: quotient: block 0,0,0: thread 3 divides by 0",
		"large":    "fake cuda: large: ",
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFaults$")
		cmd.Env = append(os.Environ(), "FAKE_FAULT="+name)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v: expected %q in\n%.500s", name, err, want, out)
		}
	}
}

func fault(g *gpu, name string) {
	n := int32(blockBytes)
	switch name {
	case "touch":
		g.fake.Strict(true)
		*(*float32)(unsafe.Add(nil, g.at)) = 1
	case "close": // behind a block that does not fill its last page
		p, err := driver.Alloc(1000)
		g.must(err)
		n = 256
		g.must(g.run(g.stream, "behind", 1, 1, 0, at(p), at(n)))
	case "behind", "quotient":
		g.must(g.run(g.stream, name, 1, 64, 0, at(g.at), at(n)))
	default:
		g.must(g.run(g.stream, name, 1, 64, 0, at(g.at)))
	}
	g.must(g.stream.Synchronize())
}
