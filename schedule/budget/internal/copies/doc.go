// Package copies finds stretches of a problem that repeat: layers of a network, blocks,
// time steps. A network of 32 equal layers and its training step have one stretch with 32
// copies; each holds the layer's nodes of both passes and of its updates.
//
// [Find] looks for a shift: a partial map that takes each node and tensor of a copy to the same one
// of the next copy, and keeps sizes and wiring. It grows from one pair of nodes along the edges,
// where colours of neighbourhoods tell which neighbours correspond.
package copies
