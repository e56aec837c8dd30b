// Package enforce makes a recorded run of ONNX Runtime keep a plan: it finds the tensors
// of the plan among the recorded blocks, and gives every block its place.
//
//	Blocks(m, p)        what ONNX Runtime allocates for the tensors of a planned model,
//	                    node by node, and where the plan has it          (blocks.go)
//	Match(blocks, run)  which recorded block is which of these           (match.go);
//	                    MatchLarge does without those of a few bytes
//	Place(...)          the replay table of the run                      (table.go)
//
// A recording has sizes and an order, no names. Kernels take scratch in between, whose
// sizes may be those of tensors. What tells them apart is that the frees of a node's
// operands stand between its own allocations and those of the next node.
package enforce
