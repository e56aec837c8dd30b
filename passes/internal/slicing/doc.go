// Package slicing finds regions of a graph that can run in slices, and rewrites them.
//
// A region is a set of nodes that runs k times, each time for about one k-th of the rows of
// some axis of every tensor that it makes. So what lives only inside the region shrinks to
// one k-th. Its inputs are cut (rows are taken) or read whole; its outputs are put together
// row by row, or summed. Rows that two neighbouring slices both compute are a halo.
//
//	Program    a graph in the order in which its nodes run, with its storages and loads
//	Region     which nodes of a window of that order run in slices ([Program.Find])
//	Slice      the rows that one slice makes and reads ([Region.Slice])
//	Estimate   the peak of a window whose region runs in k slices, and the extra time
//	Cover      the cheapest set of regions that brings a program below a limit
//	Rewrite    the graph in which the regions run in slices
//
// The dimension maps, which say what rows of an output need, are a column of package
// ops ([ops.Cut]). Nothing here searches an order: [Cover] keeps the order that it is
// given, and the order of the rewritten graph is searched afterwards.
package slicing
