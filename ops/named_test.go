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

// Reasons why code lists operators.
const (
	ofGradient = "a table of gradients or of reasons without one: a test finds an operator that is in none"
	ofVersions = "what changed between two versions of an operator is its history, of which no column says more than signatures"
	ofValues   = "the names are values of an attribute, such as the activations of an LSTM"
	ofKeys     = "what becomes of keys follows from each operator's own rule; docs/operators.md says which has one, and why not"
	ofShape    = "what a number in a shape stands for is each operator's own rule"
	ofFunction = "a function for each operator computes it"
	ofCases    = "cases of tests are chosen by operator"
)

// comparisons are the names that a file compares or lists, and why no column can answer.
type comparisons struct {
	count  int
	reason string
}

// named lists the files that compare names of operators.
var named = map[string]comparisons{
	"autodiff/corner.go": {103, ofFormula},

	"autodiff/cast.go":                     {1, ofPattern},
	"autodiff/composite.go":                {14, ofPattern},
	"autodiff/composite_norm.go":           {4, ofPattern},
	"autodiff/flash_attention.go":          {13, ofPattern},
	"autodiff/shared_heads.go":             {6, ofPattern},
	"autodiff/constants.go":                {1, ofPattern},
	"autodiff/lean_table.go":               {5, ofPattern},
	"autodiff/linear.go":                   {2, ofPattern},
	"autodiff/overflow.go":                 {2, ofPattern},
	"autodiff/logits.go":                   {5, ofPattern},
	"autodiff/range.go":                    {1, ofPattern},
	"autodiff/scan_product.go":             {1, ofPattern},
	"autodiff/spelled.go":                  {3, ofPattern},
	"autodiff/untie.go":                    {3, ofPattern},
	"passes/attention_hint.go":             {1, ofPattern},
	"passes/internal/attend/einsum.go":     {1, ofPattern},
	"passes/internal/attend/find.go":       {16, ofPattern},
	"passes/internal/attend/mask.go":       {7, ofPattern},
	"passes/internal/kv/caches.go":         {1, ofPattern},
	"passes/internal/kv/rules.go":          {2, ofPattern},
	"passes/internal/slicing/attention.go": {5, ofPattern},
	"passes/internal/slicing/part.go":      {1, ofPattern},
	"passes/internal/slicing/region.go":    {1, ofPattern},
	"passes/internal/planner/tiers.go":     {1, ofPattern},
	"vm/internal/lower/norm_gradient.go":   {1, ofPattern},
	"vm/internal/lower/residual.go":        {2, ofPattern},

	"vm/internal/gpu/bits.go":           {1, ofKernel},
	"vm/internal/kernel/blocks.go":      {1, ofKernel},
	"vm/internal/kernel/blocks_pool.go": {2, ofKernel},
	"vm/internal/form/broadcast.go":     {1, ofKernel},
	"vm/internal/kernel/qpixels.go":     {1, ofKernel},

	"internal/reference/control.go": {3, ofReference},

	"plan/verify/internal/rowmap/reduce.go": {6, ofRowMap},
	"plan/verify/internal/rowmap/rowmap.go": {1, ofRowMap},

	"plan/verify/internal/folding/folding.go":    {10, ofTwin},
	"plan/verify/internal/caches/caches.go":      {2, ofTwin},
	"plan/verify/internal/folding/shapes.go":     {1, ofTwin},
	"plan/verify/internal/regions/attention.go":  {10, ofTwin},
	"plan/verify/internal/regions/before.go":     {2, ofTwin},
	"plan/verify/internal/regions/copies.go":     {1, ofTwin},
	"plan/verify/internal/regions/lengths.go":    {1, ofTwin},
	"plan/verify/internal/regions/parts.go":      {1, ofTwin},
	"plan/verify/internal/training/attention.go": {17, ofTwin},
	"plan/verify/internal/training/checked.go":   {2, ofTwin},
	"plan/verify/internal/training/forward.go":   {2, ofTwin},
	"plan/verify/internal/training/layout.go":    {16, ofTwin},
	"plan/verify/internal/training/linear.go":    {3, ofTwin},
	"plan/verify/internal/training/product.go":   {3, ofTwin},
	"plan/verify/internal/training/spelled.go":   {27, ofTwin},
	"plan/verify/attention.go":                   {4, ofTwin},
	"plan/verify/internal/training/opsets.go":    {14, ofVersions},
	"plan/verify/internal/training/uniform.go":   {1, ofFunction},
	"plan/verify/tiers.go":                       {1, ofTwin},

	"passes/internal/kv/edit.go":         {1, ofRewrite},
	"passes/internal/folding/product.go": {3, ofRewrite},

	"schedule/onnxruntime.go": {2, ofRuntime},

	"autodiff/sequence.go": {6, ofItems},

	"autodiff/scan.go":             {1, ofBody},
	"vm/internal/lower/bodies.go":  {4, ofBody},
	"vm/internal/exec/handover.go": {1, ofBody},

	"vm/internal/lower/nhwc.go": {1, ofLayout},
	"vm/internal/lower/nchw.go": {1, ofLayout},
}

// listed lists the files with lists of operators.
var listed = map[string]comparisons{
	"autodiff/attention.go":      {1, ofGradient},
	"autodiff/columns.go":        {1, ofGradient},
	"autodiff/contrib.go":        {1, ofGradient},
	"autodiff/contrib_expand.go": {1, ofGradient},
	"autodiff/loop.go":           {1, ofGradient},
	"autodiff/lora/weights.go":   {1, ofPattern},
	"autodiff/overflow.go":       {1, ofPattern},
	"autodiff/recurrent.go":      {3, ofGradient + "; " + ofValues},
	"autodiff/sequence.go":       {1, ofGradient},
	"autodiff/without.go":        {14, ofGradient},

	"autodiff/upgrade.go":         {3, ofVersions},
	"passes/internal/kv/opset.go": {1, ofVersions},

	"plan/verify/internal/training/checked.go": {1, ofTwin},

	"passes/internal/kv/elementwise.go":    {1, ofFormula},
	"passes/internal/kv/rules.go":          {1, ofKeys},
	"passes/internal/slicing/elsewhere.go": {1, ofShape},

	"vm/internal/lower/qdq.go": {1, ofRewrite},

	"vm/internal/form/recurrent.go": {2, ofValues},
	"vm/internal/kernel/fuse.go":    {1, ofValues},

	"vm/internal/kernel/quantized.go": {1, ofFunction},
	"internal/constant/eval.go":       {1, ofFunction},
	"internal/constant/number.go":     {4, ofFunction},

	"plan/verify/internal/folding/folding.go":  {2, ofTwin},
	"plan/verify/internal/regions/copies.go":   {1, ofShape},
	"plan/verify/internal/training/loss.go":    {1, ofTwin},
	"plan/verify/internal/training/opsets.go":  {2, ofVersions},
	"plan/verify/internal/training/uniform.go": {2, ofFunction},

	"internal/reference/contrib.go": {1, ofValues},
	"internal/reference/types.go":   {2, ofReference},

	"internal/randmodel/elementwise.go": {1, ofCases},
	"internal/randmodel/sequences.go":   {1, ofCases},
	"vm/internal/mutate/large.go":       {1, ofCases},
}
