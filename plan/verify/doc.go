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
// bounds. The files here are what stands between a plan and the core.
//
//	verify.go         Plan, and the order of the checks
//	report.go         Report; claims.go: the fields that are claimed, not checked
//	storages.go       the tensors of a graph, merged into storages
//	buffers.go        every tensor is in one buffer, or dynamic
//	updates.go        parameters and gradients of training graphs
//	loads.go          the steps of the planned order, and the order of the input file
//	overlap.go        the buffers of a pool
//	subgraphs.go      bodies; their memory is the workspace of their node
//	certificates.go   certificates, by their kinds; internal/replay repeats those of kind search
//	repetitions.go    plans below a limit: which step repeats which (same.go)
//	swaps.go          tensors on a host, and the time spent waiting for them
//	slices.go         regions that run in slices, compared with the source (slices_*.go)
//	summary.go        the figures of the summary
//	annotations.go    the metadata of the planned file
package verify
