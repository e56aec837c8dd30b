package autodiff

import (
	"slices"
	"strings"
)

// savingSet is a set of savings: ways to emit gradients that need less memory. All are
// on unless Options.NoLean names them.
type savingSet uint

const (
	savingCrossEntropy savingSet = 1 << iota
	savingSoftmax
	savingNorm
	savingMask
	savingPool
	savingDropout
	savingProduct
	savingInPlace
	savingCast

	allSavings = 1<<iota - 1
)

// Saving is one way of emitting gradients that need less memory, without
// computing any large tensor twice.
type Saving struct{ Name, Doc string }

// Savings lists the ways to save memory, in the order of their bits in savingSet.
var Savings = []Saving{
	{"cross-entropy", "one buffer for the scores, their log-probabilities and their gradient, each overwriting the one before"},
	{"softmax", "of a softmax whose NaN are replaced (masked attention), only the result is kept: neither its input nor the positions of the NaN"},
	{"norm", "of an RMS normalisation made of single operators, only the input is kept"},
	{"mask", "the gradients of Relu and Clip read a bool, computed from the result where that is enough"},
	{"pool", "MaxPool keeps the position of each maximum within its window, in one or two bytes; a Relu before it keeps nothing"},
	{"dropout", "Dropout with a seed draws its mask again in the backward pass"},
	{"product", "products transpose the smaller tensor, and sum over the batch; a table that is read transposed gets its gradient as it lies"},
	{"in-place", "the gradient of Swish reads only its input and takes two buffers; rows of a table are added into its other gradients"},
	{"cast", "what was widened from 16 bits is widened again in the backward pass, which keeps the 16 bits"},
}

// SavingNames lists the names of Savings, and "all".
func SavingNames() []string {
	names := make([]string, 0, len(Savings)+1)
	for _, l := range Savings {
		names = append(names, l.Name)
	}
	return append(names, "all")
}

// savingsWithout returns the set of all savings except those named.
func savingsWithout(names []string) (savingSet, error) {
	on := savingSet(allSavings)
	for _, name := range names {
		switch i := slices.Index(SavingNames(), name); i {
		case -1:
			return 0, optionf("saving %q: expected some of %s", name, strings.Join(SavingNames(), ", "))
		case len(Savings):
			on = 0
		default:
			on &^= 1 << i
		}
	}
	return on, nil
}

// saves reports whether a saving is on.
func (e *emitter) saves(s savingSet) bool { return e.saving&s != 0 }
