// Package api holds the rules that the exported API of every public package keeps:
// its tests walk the types and the doc comments.
package api
