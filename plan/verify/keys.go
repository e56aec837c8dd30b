package verify

// Metadata keys of a training graph (docs/formats/training.md).
const (
	keyMode      = "onnxmem.mode"
	keyUpdates   = "onnxmem.updates"
	keyTrainable = "onnxmem.trainable"
	keyGradients = "onnxmem.gradients"

	// keyStates is that of an inference graph with caches.
	keyStates = "onnxmem.states"

	modeTraining  = "training"
	modeInference = "inference"
)

// Metadata keys of a planned file.
const (
	keyOffset  = "onnxmem.offset"
	keyVersion = "onnxmem.plan_version"
	keyArena   = "onnxmem.arena_bytes"
	keyPeak    = "onnxmem.peak_bytes"
	keyBound   = "onnxmem.lower_bound_bytes"
	keyDims    = "onnxmem.dims"
	keyValues  = "onnxmem.values"
	keyFolded  = "onnxmem.folded"
)
