package autodiff

// generateRules cover operators that make a tensor from attributes, lengths or
// the shape of another tensor.
var generateRules = []Rule{
	{Op: "Shape", Inputs: none},
	{Op: "Size", Inputs: none},
	{Op: "ConstantOfShape", Inputs: none},
	{Op: "EyeLike", Inputs: none},
}
