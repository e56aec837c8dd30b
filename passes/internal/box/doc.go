// Package box plans bare problems at the points of a box of lengths: it chooses one order of the
// nodes, and one placement of the buffers, for all points. A fixed length is a box of one point.
//
// A point is a combination of lengths; the corner has the largest length of each dimension. The
// problems of a [Graph] have the same nodes and tensors at all points, and differ in sizes alone.
// These questions are answered, in this order:
//
//	List      which orders are worth placing: the best ones of each point, or those that a
//	          runtime takes by default (package schedule)
//	Choose    which of them has the best placement, at the point where it is farthest from the
//	          lower bound. A function places an order: at one point it gives offsets; at several
//	          a [Stack], which ranks the buffers (package alloc/stacking)
//	BoundAt   what no order needs less than at another point, by the certificates of the points
//	          at which orders were sought
//	Solve     at which points orders must be sought, so that the choice holds at all, and is
//	          nowhere farther from the bound
//
// [Sizes] are the bytes of buffers as polynomials of the lengths.
//
// The package knows no ONNX, no option and no pass: what it depends on is in its arguments.
package box
