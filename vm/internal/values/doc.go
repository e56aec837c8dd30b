// Package values holds what the tensors of a session hold: elements in a planned place or in the side
// pool, boxes (sequences, optionals and maps, which never change and share their items), and strings,
// which are numbers in a table. It has the operators on boxes, and converts to and from what callers
// give and get. It knows neither plans nor steps.
package values
