package autodiff

// randomRules draw elements at random; no gradient flows through a drawing.
var randomRules = []Rule{
	{Op: "Bernoulli", Inputs: none},
	{Op: "Multinomial", Inputs: none},
	{Op: "RandomNormalLike", Inputs: none},
	{Op: "RandomUniformLike", Inputs: none},
}
