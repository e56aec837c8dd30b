package autodiff

// controlRules cover operators with bodies.
var controlRules = []Rule{
	{Op: "If", Grad: ifGrad},
	{Op: "Scan", Grad: scanGrad},
}
