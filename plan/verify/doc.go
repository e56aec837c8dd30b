// Package verify checks a plan against its ONNX file, and trusts nothing in the plan.
//
// [Plan] takes the planned file and the plan, and returns a [Report]: the violations,
// the recomputed summary, how far bound and placement are proven, and the fields that
// cannot be checked. It infers the shapes of the planned file, derives from package
// ops which tensors may share a buffer, and recomputes lifetimes, loads, peak, arena
// and annotations. It proves each certificate again, as the maximum flow of a network
// that it builds from the definition of the bound. It shares no code with schedule or
// alloc, and searches only to replay a search.
//
// What decides is small and knows no ONNX: internal/core, with lifetimes, overlaps, loads and
// bounds. Provers reduce some claims of a plan each to what the core decides, or find a
// violation: those of slices, folded constants, caches and unchanged nodes are packages below
// internal, the others are files here. provers.go is the table of them, in the order in which
// they run, with their files and with what each assumes; docs/auditor.md shows it.
//
//	verify.go      Plan, which runs the table
//	provers.go     the table; below.go: calls of those that are packages
//	storages.go    how a graph becomes the core's problem; buffers.go: and a plan its buffers
//	report.go      Report; claims.go: the fields that are claimed, not checked
package verify
