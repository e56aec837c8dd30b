package ops

// families lists the operators of every file.
var families = []family{
	elementwise,
}
