package ops_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/ops"
)

const operatorsHead = `# Operators, and what onnxmem has of each

A test of package ops writes this page (` + "`go test ./ops -run TestOperators -update`" + `). It has a row for each operator and a column for each aspect. A new operator has a row as soon as package ops knows it; the test fails until every cell is a file or a reason. Operators stand in the families of their files: a file of one name has the meaning of an operator, its kernel, its row for a GPU, its gradient and its reference, so a cell says *yes* where that file has it, and names the file or the reason where not. [How to add one](design/adding.md).

`

const operatorsReasons = `
Reasons: *planned only*: onnxmem infers its shapes and plans its memory, and ` + "`onnxmem run`" + ` refuses it. *not yet*: nothing is in the way but the work. *by data*: a length of the result follows from the elements. *strings*, *bodies*, *collections*: it works on these. *own layout*: it is made for images in ONNX Runtime's blocks. *small*: it makes few elements, known before a run. *one scale*: the scale follows from all elements. *of a plan*: only planned files have it.

Reasons of chains, whose links take up to three tensors of float32 or of truth values and nothing else: *a copy* takes no time; *converts*: its dtypes are those of the node; *applied before*: the kernel before applies it; *no reals*; *any number* of inputs; *attributes*. Reasons of caches: *empty rows*: an element of its result depends on all along an axis, and those of keys that are not there yet count, too; *lengths*: it reads no elements; *no inputs*; *training*: a training step has no caches; *images*: its axes are no tokens; *other domain*: the rules are those of ai.onnx.

Reasons of gradients are those of ` + "`autodiff/without.go`" + `, by their names there. *·*: the aspect does not apply to its class.
`

// column is an aspect. Its cell is "" if there is neither what it asks for nor a reason.
type column struct {
	name, doc string
	cell      func(a *aspects, key, domain string, op *ops.Op) string
}

const (
	yes         = "yes"
	notApplying = "·"
)

var columns = []column{
	{"class", "which elements of the inputs an element of the result depends on: `ops/class.go`.", func(_ *aspects, _, _ string, op *ops.Op) string { return op.Class.String() }},
	{"slices", "whether a node may run in slices: along rows (column Cut), or parts of a sum (column Sum).", slicesCell},
	{"row map", "the verifier's own map of rows, below `plan/verify/internal/rowmap`.", rowMapCell},
	{"host", "the kernel for CPUs.", hostCell},
	{"fused", "whether the kernel before *applies* it, or it applies what follows (columns Activation and Applies).", fusedCell},
	{"chain", "whether a chain of elementwise nodes may have it as a link: `vm/internal/kernel/chain.go`.", chainCell},
	{"blocks", "whether images may stay in blocks of 16 channels: its kernel computes with them, or does not see the difference.", blocksCell},
	{"GPU", "the row for CUDA; without one, a node runs on the host.", gpuCell},
	{"gradient", "the rule, or the file that replaces it by others first; reasons: `autodiff/without.go`.", gradientCell},
	{"reference", "the plain evaluator, with which kernels are compared.", referenceCell},
	{"caches", "what `--kv-capacity` and `--state=auto` make of it: a rule for keys and values, or it updates a state; else the reason why a model in which it reads keys is refused.", cachesCell},
	{"cost", "what a device's model counts, besides bytes: operations, functions in those of Exp, the form of a product or an image.", costCell},
	{"ORT", "what ONNX Runtime's kernel shares: a view, a result in place, or, with `onnxruntime-arena`, one that an allocator puts in place (*arena*).", sharingCell},
	{"torch", "where crosscheck has PyTorch's version of the gradient; *ORT alone*: only ONNX Runtime's results are compared.", torchCell},
}

// fills says what fills a cell that may be empty; FILE is the file of the operator's family.
var fills = map[string]string{
	"slices":    "the column Cut or Sum in ops/FILE",
	"row map":   "its name in a call of register in plan/verify/internal/rowmap",
	"host":      "a row in vm/internal/kernel/FILE",
	"chain":     "the column Link in vm/internal/kernel/FILE",
	"GPU":       "a row in vm/internal/gpu/FILE",
	"gradient":  "a row or an expansion in autodiff/FILE, or a reason in autodiff/without.go",
	"reference": "a row in internal/reference/FILE",
	"caches":    "a row in passes/internal/kv/rules.go",
}

// because is the reason that a list has for an operator.
func because(aspect, key string) string {
	for reason, keys := range missing[aspect] {
		if slices.Contains(keys, key) {
			return reason
		}
	}
	return ""
}

// planned reports whether an operator is only planned.
func planned(a *aspects, key string) bool {
	return a.kernel[key] == "" && (a.meaning[key] == "training.go" || because("host", key) == "planned only")
}

func slicesCell(a *aspects, key, domain string, op *ops.Op) string {
	switch {
	case op.Cut != nil && op.Sum != nil:
		return "rows, sums"
	case op.Cut != nil:
		return "rows"
	case op.Sum != nil:
		return "sums"
	case planned(a, key):
		return "planned only"
	case op.Class == ops.Control:
		return "bodies"
	case op.Class == ops.Box:
		return "collections"
	case op.Class == ops.Draw:
		return "draws by place"
	case domain == "com.microsoft.nchwc":
		return "own layout"
	case domain == "ai.onnx.ml":
		return "not yet"
	}
	return because("slices", key)
}

func rowMapCell(a *aspects, key, _ string, op *ops.Op) string {
	switch {
	case a.rowmap[key] != "":
		return link("plan/verify/internal/rowmap", a.rowmap[key])
	case op.Cut == nil && op.Sum == nil:
		return notApplying
	}
	return because("row map", key)
}

func hostCell(a *aspects, key, _ string, op *ops.Op) string {
	switch {
	case a.kernel[key] != "":
		return yes
	case a.boxer[key] != "":
		return link("vm/internal/values", a.boxer[key])
	case op.Class == ops.Control:
		return link("vm/internal/exec", "control.go")
	case planned(a, key):
		return "planned only"
	}
	return because("host", key)
}

func fusedCell(_ *aspects, _, _ string, op *ops.Op) string {
	switch {
	case op.Activation:
		return "is applied"
	case op.Applies:
		return "applies"
	}
	return notApplying
}

func chainCell(a *aspects, key, domain string, op *ops.Op) string {
	switch {
	case a.link[key] != "" || op.Quantizes || op.Dequantizes:
		return yes
	case op.Class != ops.Elementwise:
		return notApplying
	case planned(a, key):
		return "planned only"
	case op.Copies:
		return "a copy"
	case op.Moves:
		return "converts"
	case op.Activation:
		return "applied before"
	}
	s := ops.SignatureOf(domain, op.Name)
	switch {
	case !s.Links:
		return "no reals"
	case s.Repeats:
		return "any number"
	case s.Attributes:
		return "attributes"
	}
	return because("chain", key)
}

func blocksCell(a *aspects, key, _ string, op *ops.Op) string {
	switch {
	case a.blocks[key] != "":
		return "computes"
	case planned(a, key):
		return notApplying
	case op.Class == ops.Elementwise || op.Concatenates:
		return "alike"
	}
	return notApplying
}

func gpuCell(a *aspects, key, domain string, op *ops.Op) string {
	switch {
	case a.gpu[key] != "":
		return yes
	case planned(a, key):
		return "planned only"
	case op.Class == ops.Control:
		return "bodies"
	case op.Class == ops.Box:
		return "collections"
	case domain == "com.microsoft.nchwc":
		return "own layout"
	case domain == "ai.onnx.ml":
		return "not yet"
	}
	return because("GPU", key)
}

func gradientCell(a *aspects, key, _ string, _ *ops.Op) string {
	switch {
	case a.gradient[key] != "":
		return yes
	case a.expansion[key] != "":
		return link("autodiff", a.expansion[key])
	case because("gradient", key) != "":
		return because("gradient", key)
	}
	return a.without[key]
}

func referenceCell(a *aspects, key, _ string, op *ops.Op) string {
	switch {
	case a.reference[key] != "":
		return yes
	case planned(a, key):
		return "planned only"
	case op.Branches || op.Repeats:
		return link("internal/reference", "control.go")
	case op.Class == ops.Box || op.Class == ops.Control:
		return "collections"
	}
	return because("reference", key)
}

// cachesCell: what follows a rule, and why the others are refused where they read keys.
func cachesCell(a *aspects, key, domain string, op *ops.Op) string {
	switch {
	case op.Updates:
		return "updates"
	case domain == "" && a.caches[op.Name] != "":
		return link("passes/internal/kv", a.caches[op.Name])
	case domain == "" && op.Class == ops.Elementwise:
		return link("passes/internal/kv", "elementwise.go")
	case planned(a, key):
		return "planned only"
	case a.meaning[key] == "training.go":
		return "training"
	case op.OfShape:
		return "lengths"
	case op.Constant:
		return "no inputs"
	case because("caches", key) != "":
		return because("caches", key)
	}
	switch op.Class {
	case ops.Reduce, ops.Window, ops.Product, ops.Norm:
		return "empty rows"
	case ops.Draw:
		return "draws by place"
	case ops.Control:
		return "bodies"
	case ops.Box:
		return "collections"
	}
	if domain != "" {
		return "other domain"
	}
	return ""
}

func costCell(_ *aspects, _, _ string, op *ops.Op) string {
	var list []string
	if op.FLOPs != nil {
		list = append(list, "operations")
	}
	if op.Exp > 0 {
		list = append(list, fmt.Sprintf("%v exp", op.Exp))
	}
	if form := map[ops.Form]string{ops.Matrices: "matrices", ops.Channels: "channels", ops.Planes: "planes"}[op.Form]; form != "" {
		list = append(list, form)
	}
	if len(list) == 0 {
		return "bytes"
	}
	return strings.Join(list, ", ")
}

func sharingCell(_ *aspects, _, domain string, op *ops.Op) string {
	own, arena := ops.LookupRuntime(ops.ONNXRuntime), ops.LookupRuntime(ops.ONNXRuntimeArena)
	switch row := own.Row(domain, op.Name); {
	case row != nil && len(row.Views) > 0:
		return "view"
	case row != nil:
		return "in place"
	case arena.Row(domain, op.Name) != nil:
		return "arena"
	case domain == "" || domain == "com.microsoft":
		return "copies"
	}
	return notApplying
}

func torchCell(a *aspects, key, _ string, op *ops.Op) string {
	switch {
	case a.gradient[key] == "" && a.expansion[key] == "":
		return notApplying
	case a.torch[op.Name] != "":
		return link("crosscheck", a.torch[op.Name])
	}
	return "ORT alone"
}

// link names a file.
func link(dir, file string) string { return fmt.Sprintf("[%s](../%s/%s)", file, dir, file) }

// missing lists what operators lack, by aspect and reason, where no rule says it.
var missing = map[string]map[string][]string{
	"host": {
		"planned only": {
			"CausalConvWithState", "ImageDecoder", "LinearAttention", "SwiGLU", "ai.onnx.preview.FlexAttention", "ai.onnx.preview.training.Adagrad",
			"ai.onnx.preview.training.Adam", "ai.onnx.preview.training.Gradient", "ai.onnx.preview.training.Momentum", "com.microsoft.BiasAdd",
			"com.microsoft.BiasSoftmax", "com.microsoft.BiasSplitGelu", "com.microsoft.CDist", "com.microsoft.CausalConvWithState", "com.microsoft.CropAndResize",
			"com.microsoft.DecoderMaskedMultiHeadAttention", "com.microsoft.DecoderMaskedSelfAttention", "com.microsoft.ExpandDims",
			"com.microsoft.FusedMatMulActivation", "com.microsoft.GatedRMSNorm", "com.microsoft.GatedRelativePositionBias", "com.microsoft.GemmFastGelu",
			"com.microsoft.GemmaRotaryEmbedding", "com.microsoft.GroupNorm", "com.microsoft.Inverse", "com.microsoft.LinearAttention",
			"com.microsoft.LongformerAttention", "com.microsoft.MRotaryEmbedding", "com.microsoft.MatMulBnb4", "com.microsoft.MatMulFpQ4",
			"com.microsoft.MatMulInteger16", "com.microsoft.MatMulNBitsMlp", "com.microsoft.MatMulNBitsQkv", "com.microsoft.MaxpoolWithMask", "com.microsoft.MoE",
			"com.microsoft.NhwcConv", "com.microsoft.NhwcFusedConv", "com.microsoft.NhwcMaxPool", "com.microsoft.PackedAttention",
			"com.microsoft.PackedMultiHeadAttention", "com.microsoft.QAttention", "com.microsoft.QEmbedLayerNormalization", "com.microsoft.QMoE",
			"com.microsoft.RelativePositionBias", "com.microsoft.RemovePadding", "com.microsoft.RestorePadding", "com.microsoft.SkipGroupNorm",
			"com.microsoft.SparseAttention", "com.microsoft.Trilu",
		},
	},
	"slices": {
		"by data":   {"Compress", "NonMaxSuppression", "NonZero", "Range", "Unique"},
		"strings":   {"RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "com.microsoft.Tokenizer", "TfIdfVectorizer"},
		"small":     {"Constant", "Shape", "Size"},
		"of a plan": {"onnxmem.PutRows", "onnxmem.SwapIn", "onnxmem.SwapOut"},
		"one scale": {"DynamicQuantizeLinear", "com.microsoft.DynamicQuantizeLSTM", "com.microsoft.DynamicQuantizeMatMul"},
		"not yet": {
			"Affine", "AffineGrid", "BitCast", "BlackmanWindow", "CenterCropPad", "Col2Im", "Crop", "DFT", "Det", "EyeLike", "HammingWindow", "HannWindow",
			"ImageScaler", "MaxRoiPool", "MaxUnpool", "MelWeightMatrix", "ReverseSequence", "STFT", "com.microsoft.Attention",
			"com.microsoft.EmbedLayerNormalization", "com.microsoft.GatherBlockQuantized", "com.microsoft.GroupQueryAttention",
			"com.microsoft.MatMulIntegerToFloat", "com.microsoft.MultiHeadAttention", "com.microsoft.QGemm", "com.microsoft.QLinearConcat",
			"com.microsoft.QLinearSoftmax", "com.microsoft.QLinearWhere", "com.microsoft.RotaryEmbedding", "com.microsoft.TransposeMatMul",
			"onnxmem.FlashAttention", "onnxmem.FlashAttentionGrad",
		},
	},
	"chain": {
		"not yet": {
			"Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Floor", "Log", "Neg", "Not", "PRelu", "Pow", "Round", "Sign",
			"Sin", "Sinh", "Softsign", "Tan", "Xor", "com.microsoft.BiasGelu", "com.microsoft.FastGelu",
		},
	},
	"caches": {
		"of a plan":  {"onnxmem.SwapIn", "onnxmem.SwapOut"},
		"by data":    {"Compress", "NonMaxSuppression", "NonZero", "TopK", "Unique"},
		"strings":    {"StringNormalizer", "StringSplit", "TfIdfVectorizer", "com.microsoft.Tokenizer"},
		"one scale":  {"DynamicQuantizeLinear"},
		"images":     {"AffineGrid", "CenterCropPad", "Crop", "DepthToSpace", "ImageScaler", "MaxUnpool", "SpaceToDepth"},
		"no inputs":  {"BlackmanWindow", "EyeLike", "HammingWindow", "HannWindow", "MelWeightMatrix"},
		"empty rows": {"DFT", "Det", "STFT"},
		"not yet":    {"BitCast", "DequantizeLinear", "GatherElements", "OneHot", "Pad", "QuantizeLinear", "ReverseSequence", "RotaryEmbedding", "Tile"},
	},
	"GPU": {
		"by data": {"Compress", "NonMaxSuppression", "NonZero", "Unique"},
		"strings": {"RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "com.microsoft.Tokenizer", "TfIdfVectorizer"},
		"small":   {"Constant", "Shape", "Size"},
		"[device_swap.go](../vm/internal/exec/device_swap.go)": {"onnxmem.SwapIn", "onnxmem.SwapOut"},
		"not yet": {"Det", "MelWeightMatrix"},
	},
	"reference": {
		"strings": {"RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "com.microsoft.Tokenizer", "ai.onnx.ml.CategoryMapper"},
	},
	"gradient": {
		"[upgrade.go](../autodiff/upgrade.go)": {"Scatter", "Upsample"},
	},
}
