package driver

import (
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"
)

// TestNoDNN: the error of a cuDNN that cannot be opened says where it was looked for.
func TestNoDNN(t *testing.T) {
	t.Setenv("ONNXMEM_CUDNN", filepath.Join(t.TempDir(), "libcudnn.so.9"))
	if _, err := OpenDNN(13000); !errors.Is(err, ErrNoDNN) || !strings.Contains(err.Error(), "ONNXMEM_CUDNN") {
		t.Errorf("got %v, want ErrNoDNN", err)
	}
	t.Setenv("ONNXMEM_CUDNN", "off")
	if _, err := OpenDNN(13000); !errors.Is(err, ErrNoDNN) || !strings.Contains(err.Error(), "off") {
		t.Errorf("got %v, want ErrNoDNN", err)
	}
}

// TestDNNPerf: the struct has the layout of cudnnConvolutionFwdAlgoPerf_t.
func TestDNNPerf(t *testing.T) {
	var p dnnPerf
	got := [...]uintptr{unsafe.Offsetof(p.Status), unsafe.Offsetof(p.Time), unsafe.Offsetof(p.Memory), unsafe.Offsetof(p.Determinism), unsafe.Offsetof(p.Math), unsafe.Sizeof(p)}
	if want := [...]uintptr{4, 8, 16, 24, 28, 48}; got != want {
		t.Errorf("offsets and size %v, want %v", got, want)
	}
}

// TestRealDNN: NVIDIA's cuDNN, where it is installed, has every function, and takes the
// descriptors of a convolution, for which it needs no GPU. It refuses those of none, and
// says why.
func TestRealDNN(t *testing.T) {
	d, err := OpenDNN(0)
	if err != nil {
		t.Skip(err)
	}
	if v := d.Version(); v < 90000 || v >= 100000 {
		t.Errorf("%s: version %d, expected one of 9", d.Path(), v)
	}
	t.Logf("%s, version %d", d.Path(), d.Version())
	runtime.LockOSThread() // whose last error cuDNN tells
	defer runtime.UnlockOSThread()
	h := &DNNHandle{d: d} // without a GPU there is no other
	for _, pass := range []DNNPass{DNNForward, DNNBackwardData, DNNBackwardFilter} {
		for _, s := range []DNNShape{
			{Image: []int32{2, 6, 9, 11}, Weights: []int32{8, 3, 3, 3}, Result: []int32{2, 8, 9, 11}, Pad: []int32{1, 1}, Stride: []int32{1, 1}, Dilation: []int32{1, 1}, Groups: 2},
			{Type: DNNBFloat16, Image: []int32{2, 6, 5, 9, 11}, Weights: []int32{8, 6, 1, 3, 3}, Result: []int32{2, 8, 5, 7, 9}, Pad: []int32{0, 0, 0}, Stride: []int32{1, 1, 1}, Dilation: []int32{1, 1, 1}, Groups: 1},
		} {
			s.Pass = pass
			c, err := h.Describe(&s)
			if err != nil {
				t.Fatalf("%v: %v", pass, err)
			}
			if err := errors.Join(c.SetMath(DNNFMA), c.SetMath(DNNAnyMath), c.Destroy(), c.Destroy()); err != nil {
				t.Errorf("%v: %v", pass, err)
			}
		}
	}
	_, err = h.Describe(&DNNShape{Image: []int32{2, 6, 9, -1}, Weights: []int32{8, 3, 3, 3}, Result: []int32{2, 8, 9, 11}, Pad: []int32{1, 1}, Stride: []int32{1, 1}, Dilation: []int32{1, 1}, Groups: 2})
	var refused *DNNError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "cudnnSetTensorNdDescriptor: CUDNN_STATUS_BAD_PARAM") || len(err.Error()) <= len(refused.Short()) {
		t.Errorf("a tensor of negative size: %v, expected cuDNN's reason", err)
	}
}
