package autodiff

// constantRules are operators that no gradient flows through: their results are
// constant but for jumps, or do not depend on the elements of their inputs.
var constantRules = []Rule{
	{Op: "Floor", Inputs: none},
	{Op: "Ceil", Inputs: none},
	{Op: "Round", Inputs: none},
	{Op: "Sign", Inputs: none},
	{Op: "Hardmax", Inputs: none},
	{Op: "ArgMax", Inputs: none},
	{Op: "ArgMin", Inputs: none},
	{Op: "NonZero", Inputs: none},
	{Op: "OneHot", Inputs: none},
	{Op: "Shape", Inputs: none},
	{Op: "Size", Inputs: none},
	{Op: "ConstantOfShape", Inputs: none},
	{Op: "EyeLike", Inputs: none},
	{Op: "Bernoulli", Inputs: none},
	{Op: "Multinomial", Inputs: none},
	{Op: "RandomNormalLike", Inputs: none},
	{Op: "RandomUniformLike", Inputs: none},
}

var none = []int{}
