// Package autodiff makes the graph of one training step from an inference model.
//
// [Train] takes a model and [Options] (loss, optimizer, which initializers to train) and
// returns a [Step]. It is one graph of standard ONNX operators with the forward pass, the
// loss, the gradients and the updates. A second model has the first values of the parameters
// and states. The model that was given keeps its nodes.
//
// The work goes through these stages, one method of trainer each:
//
//	upgrade           brings operators of opsets 7 to 17 to opset 18
//	forward           sets training modes and expands operators that have no rule
//	objective         adds the loss
//	selectParameters  decides which initializers are parameters
//	backward          emits the gradients
//	clip, update      emit gradient clipping and the optimizer's updates
//	finish            sets inputs, outputs and metadata, and removes unused nodes
//
// Gradients come from rules: families.go lists the tables, one file per family of
// operators, named as in package ops. A [Rule] emits the gradients of one operator
// through [Backward]. Gorgonia's symbolic differentiation decides which rules run
// and which terms are added (tape.go, differentiate.go); all shapes, types and
// emitted nodes are in our own graph (emit.go). composite.go replaces groups of
// nodes that spell out one operator, so that one rule differentiates the group.
// [Savings] lists the techniques by which gradients need less memory.
package autodiff
