// Package repeat makes the main graph in which nodes run again and tensors are swapped to the host,
// out of the graph in its best order and a sequence of steps. A [Repetition] then says of each step
// which node it repeats, and a plan says so to whoever undoes it.
package repeat
