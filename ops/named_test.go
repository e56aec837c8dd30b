package ops_test

// Reasons why code compares the names of operators.
const (
	ofRule      = "the gradient of each operator has its own rule, of which this is a part"
	ofFormula   = "the sign, the zeros and the infinities of each operator follow from its formula"
	ofPattern   = "it looks for nodes that spell a formula, such as a softmax or an attention: the pattern consists of operators"
	ofKernel    = "rows of one family share a kernel, in which one of them differs"
	ofReference = "rows of one family share a reference, which uses no column of ops"
	ofRowMap    = "the twin of the row maps of ops uses none of its columns; rows of one family share one"
	ofTwin      = "the verifier rebuilds the nodes of a rewrite from their operators"
	ofRewrite   = "it rewrites these nodes to others of a given operator"
	ofRuntime   = "it repeats what ONNX Runtime does by name"
	ofItems     = "what a sequence holds follows from what each operator does with items"
	ofBody      = "bodies of If, Loop, Scan and SequenceMap have their own signatures"
	ofLayout    = "how a node joins a chain, a block or bytes is what its kernel says of it"
)

// comparisons are the names that a file compares, and why no column can answer.
type comparisons struct {
	count  int
	reason string
}

// named lists the files that compare names of operators.
var named = map[string]comparisons{
	"autodiff/corner.go": {103, ofFormula},

	"autodiff/composite.go":                {14, ofPattern},
	"autodiff/composite_norm.go":           {3, ofPattern},
	"autodiff/constants.go":                {1, ofPattern},
	"autodiff/lean_table.go":               {5, ofPattern},
	"autodiff/logits.go":                   {5, ofPattern},
	"autodiff/range.go":                    {1, ofPattern},
	"autodiff/scan_product.go":             {1, ofPattern},
	"autodiff/spelled.go":                  {3, ofPattern},
	"autodiff/untie.go":                    {3, ofPattern},
	"passes/internal/kv/caches.go":         {1, ofPattern},
	"passes/internal/kv/rules.go":          {2, ofPattern},
	"passes/internal/slicing/attention.go": {5, ofPattern},
	"passes/internal/slicing/part.go":      {1, ofPattern},
	"passes/internal/slicing/region.go":    {1, ofPattern},
	"passes/tiers.go":                      {1, ofPattern},
	"vm/norm_gradient.go":                  {1, ofPattern},
	"vm/residual.go":                       {2, ofPattern},

	"vm/internal/gpu/bits.go":           {1, ofKernel},
	"vm/internal/kernel/blocks.go":      {1, ofKernel},
	"vm/internal/kernel/blocks_pool.go": {2, ofKernel},
	"vm/internal/form/broadcast.go":     {1, ofKernel},
	"vm/internal/kernel/qpixels.go":     {1, ofKernel},

	"internal/reference/control.go": {3, ofReference},

	"plan/verify/internal/rowmap/reduce.go": {6, ofRowMap},
	"plan/verify/internal/rowmap/rowmap.go": {1, ofRowMap},

	"plan/verify/internal/folding/folding.go":   {10, ofTwin},
	"plan/verify/internal/caches/caches.go":     {2, ofTwin},
	"plan/verify/internal/folding/shapes.go":    {1, ofTwin},
	"plan/verify/internal/regions/attention.go": {10, ofTwin},
	"plan/verify/internal/regions/before.go":    {2, ofTwin},
	"plan/verify/internal/regions/copies.go":    {1, ofTwin},
	"plan/verify/internal/regions/parts.go":     {1, ofTwin},
	"plan/verify/tiers.go":                      {1, ofTwin},

	"passes/internal/kv/edit.go": {1, ofRewrite},
	"passes/product.go":          {3, ofRewrite},

	"schedule/onnxruntime.go": {2, ofRuntime},

	"autodiff/sequence.go": {6, ofItems},

	"autodiff/scan.go": {1, ofBody},
	"vm/control.go":    {4, ofBody},
	"vm/handover.go":   {1, ofBody},

	"vm/nhwc.go": {2, ofLayout},
	"vm/nchw.go": {1, ofLayout},
}
