package gpu

// activations lists the activation functions of neural networks.
var activations = []Row{
	{Name: "Relu", Element: like(isSigned)},
	{Name: "Sigmoid", Element: like(isReal)},
}
