// Package planner gives a graph an order, offsets and bounds. It is a function of a graph whose
// types are known, of what a plan may do ([Rules]), and of how much work its searches may do
// ([Search]). It knows no options and no pass, and never changes a graph's nodes.
//
//	Rules.Shared        the storages of a graph, and what may overwrite them: a [Region]
//	Region.PlanBodies   the plans of the bodies of its nodes, which are their workspace
//	Region.Order        its nodes in the order with the smallest peak, and a bound of any order
//	Region.Place        the offsets of its buffers, in one arena or in pools
//	Region.ChooseAliases  results that lie in their operands, where that is better
//	RangeSolver         the same for all lengths of some dimensions at once
//
// Searches of package passes ask it for each graph that they try ([Trial]).
package planner
