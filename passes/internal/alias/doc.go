// Package alias finds which results of Concat, Split, Slice and Gather may lie in the
// bytes of their operands, or their operands in the bytes of the result.
//
// Every storage has a content: a list of spans of roots. A root is memory that one node
// writes (or a graph input); a storage whose node only joins or cuts others has spans of
// their roots, and its node has nothing to copy:
//
//	Split, Slice, Gather:  content(y) = the part of content(x) from its offset
//	Concat:                content(y) = content(x1) + content(x2) + …
//
// Taking a part of a list demands nothing. Joining two spans demands that one root lies
// right behind the other. A root has one place, so it has at most one root before it and
// one behind it; roots that are joined form a chain, which is one range of memory. An
// operand that cannot be joined is copied: the bytes of the result that it fills are a
// root that the Concat writes.
//
// Roots are cut into pieces wherever the content of some storage begins or ends. A piece
// is live from the node that writes its root to the last reader of any storage that
// covers it, so a bare scheduling problem with a tensor for each piece counts the load.
// Without in-place pairs, joining a Concat or a Split in this way increases the load of
// no step of any order.
package alias
