package autodiff

// randomRules cover operators that draw random elements; no gradient flows
// through them.
var randomRules = []Rule{
	{Op: "Bernoulli", Inputs: none},
	{Op: "Multinomial", Inputs: none},
	{Op: "RandomNormalLike", Inputs: none},
	{Op: "RandomUniformLike", Inputs: none},
}
