// Package verify checks a plan against the ONNX file alone.
//
// [Plan] infers the shapes of the planned file, derives from package ops which
// tensors may share a buffer, and recomputes everything that the plan says:
// lifetimes, loads, peak, arena, annotations. It re-proves each certificate: it
// builds the network of the bound from its definition and takes the maximum flow
// of it. What the planner does by search, the verifier checks by definition; it
// shares no code with schedule or alloc.
//
//	verify.go        Plan, and the order of the checks
//	report.go        Report: violations with their codes, the recomputed summary
//	storages.go      scopes: the tensors of a graph, merged into storages
//	buffers.go       every tensor stands in one buffer, or is dynamic
//	loads.go         lifetimes and loads of the planned order
//	certificates.go  the bounds, from their kinds and nodes alone
//	replay.go        a bounded search that repeats certificates of kind search
//	repetitions.go   plans below a limit: which step repeats which
package verify
