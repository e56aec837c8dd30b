package kernel

import "github.com/onnxmem/onnxmem/vm/internal/form"

// expansion lists the operators that repeat elements along axes.
var expansion = family{"", []Kernel{
	{Name: "Expand", Make: moving(form.ExpandMoves), Half: true, Moves: true},
	{Name: "Tile", Make: moving(form.TileMoves), Half: true, Moves: true},
}}
