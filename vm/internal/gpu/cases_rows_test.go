package gpu

// rowCases are the cases of operators that work along lines of a tensor.
var rowCases = []nodeCase{
	{op: "Softmax", in: args(noise(3, 5))},
	{op: "Softmax", in: args(noise(2, 9000))},
	{op: "Softmax", attrs: attrs(whole("axis", 0)), in: args(noise(700, 3))},
	{op: "LogSoftmax", in: args(noise(19, 777)), types: allReals},
	{op: "LogSoftmax", in: args(noise(2, 1500))},
	{op: "LogSoftmax", attrs: attrs(whole("axis", 1)), in: args(noise(3, 40, 21))},
	{op: "Hardmax", in: args(noise(19, 333))},
	{op: "Hardmax", attrs: attrs(whole("axis", 1)), in: args(noise(3, 40, 21))},
	{op: "Hardmax", version: 11, in: args(noise(3, 4, 21))},
}

func init() { cases = append(cases, rowCases...) }
