// Package onnx reads and writes ONNX files without changing a byte that it does
// not own.
//
// [Open] maps a file and returns its [graph.Model]; [Encode] makes the [Image] of
// the file to write, and [Write] writes it. Reading decodes the graph and keeps
// everything else as spans of the mapped file: weights are neither copied nor
// read. Writing copies those spans, with the nodes in the present order of the
// graph and the present metadata entries under "onnxmem.". A model without
// changes is written byte for byte as it was.
//
//	wire.go      protobuf fields with their places
//	read.go      Open, Parse: the model, its opsets, functions and metadata
//	graph.go     one scope: nodes, names, bodies
//	tensor.go    TensorProto and SparseTensorProto
//	types.go     TypeProto and ValueInfoProto
//	external.go  data in other files: where they may be, how they are copied
//	image.go     Encode: the bytes of a file as pieces of the source and new ones
//	revise.go    messages that were read, with their changes
//	padding.go   padding that keeps the offset of large weights within a block
//	encode.go    messages that were built, not read
//	write.go     an image into a file: reflink or kernel copy, then rename
package onnx

import "github.com/onnxmem/onnxmem/graph"

// Error says what is wrong with a file and where.
type Error = graph.Error

// Prefix is the prefix of the metadata keys that onnxmem owns.
const Prefix = "onnxmem."
