// Package onnx reads and writes ONNX files without losing a byte that it does
// not own.
//
// Reading decodes the graph from the wire format and leaves all the rest as
// spans of the mapped file: weights are neither copied nor looked at. Writing
// emits those spans again, with the nodes in the order that the graph now has
// and the metadata entries under "onnxmem." as they now stand. A model in which
// nothing changed is written byte for byte as it was.
//
//	wire.go      protobuf fields with their places
//	read.go      Open, Parse: the model, its opsets, functions and metadata
//	graph.go     one scope: nodes, names, bodies
//	tensor.go    TensorProto and SparseTensorProto
//	types.go     TypeProto and ValueInfoProto
//	external.go  data in other files: where they may lie, how they are brought along
//	image.go     Encode: the bytes of a file as pieces of the source and new ones
//	revise.go    messages that were read, with what changed put in
//	padding.go   room that keeps large weights where they lay within a block
//	encode.go    messages that were built, not read
//	write.go     an image into a file: reflink or kernel copy, then rename
package onnx

import "github.com/onnxmem/onnxmem/graph"

// Error says what is wrong with a file and where.
type Error = graph.Error

// Prefix begins the keys of all metadata entries that are ours.
const Prefix = "onnxmem."
