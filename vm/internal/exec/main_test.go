package exec

import "github.com/onnxmem/onnxmem/vm/internal/lower"

func init() { lower.Check(lower.ChecksAlways) }
