// Package folding chooses which nodes with constant operands are computed when a model is
// planned: those whose results take no more memory at the peak than what they replace. It asks
// package planner what each choice needs.
package folding
