package form

// Layout says how a session holds an image, where that is another way than the operators around
// the image see. An image takes the same bytes in each.
type Layout uint8

// The layouts.
const (
	Plain   Layout = iota // as the operators see it: NCHW, but for those of NCHWc
	NCHW                  // the operators see NCHWc, in blocks of channels (attr.Nchwc)
	NHWC                  // with the channels last
	NCHW16c               // [N, C/16, H, W, 16] (gemm.BlockLen), of volumes [N, C/16, D, H, W, 16]; of each image, [H, W, 8] follows if C is no multiple of 16 but of 8
)

// String names the layout as profiles do; "" if it is that of the operators.
func (l Layout) String() string { return [...]string{"", "NCHW", "NHWC", "NCHW16c"}[l] }
