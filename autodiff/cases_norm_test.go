package autodiff

var normCases = []ruleCase{
	{op: "BatchNormalization", name: "training", in: []operand{param(3, 2, 2, 2), param(2), param(2), param(2).fixed(), param(2).in(0.5, 1).fixed()}, opsets: []int64{7, 9, 14, 15, 18}, training: true},
	{op: "BatchNormalization", name: "training, two axes", in: []operand{param(4, 3), param(3), param(3), param(3).fixed(), param(3).in(0.5, 1).fixed()}, training: true},
	{op: "BatchNormalization", name: "training, epsilon", in: []operand{param(3, 2, 3), param(2), param(2), param(2).fixed(), param(2).in(0.5, 1).fixed()}, attrs: attrs{"epsilon": 0.1, "momentum": 0.5}, training: true},
	{op: "BatchNormalization", name: "training, scale alone", in: []operand{param(3, 2, 3).fed(), param(2), param(2), param(2).fixed(), param(2).in(0.5, 1).fixed()}, training: true},
	{op: "BatchNormalization", name: "training, x alone", in: []operand{param(3, 2, 3), param(2).fixed(), param(2).fixed(), param(2).fixed(), param(2).in(0.5, 1).fixed()}, training: true},
	{op: "BatchNormalization", name: "frozen statistics", in: []operand{param(3, 2, 2, 2), param(2), param(2), param(2).fixed(), param(2).in(0.5, 1).fixed()}, opsets: []int64{7, 9, 14, 18}, freeze: true},
	{op: "BatchNormalization", name: "frozen statistics, x and bias", in: []operand{param(3, 2, 2), param(2).fixed(), param(2), param(2).fixed(), param(2).in(0.5, 1).fixed()}, freeze: true},
	{op: "BatchNormalization", name: "frozen statistics, bias alone", in: []operand{param(3, 2, 2).fed(), param(2).fixed(), param(2), param(2).fixed(), param(2).in(0.5, 1).fixed()}, freeze: true},
	{op: "BatchNormalization", name: "frozen statistics, scale alone", in: []operand{param(3, 2, 2).fed(), param(2), param(2).fixed(), param(2).fixed(), param(2).in(0.5, 1).fixed()}, freeze: true},

	{op: "LayerNormalization", in: []operand{param(2, 3, 4), param(4), param(4)}, opsets: []int64{17, 18, 21}},
	{op: "LayerNormalization", name: "no bias", in: []operand{param(2, 4), param(4)}},
	{op: "LayerNormalization", name: "axis 1", in: []operand{param(2, 3, 4), param(3, 4), param(3, 4)}, attrs: attrs{"axis": 1}},
	{op: "LayerNormalization", name: "axis -2, epsilon", in: []operand{param(2, 3, 4), param(3, 4), param(4)}, attrs: attrs{"axis": -2, "epsilon": 0.1}},
	{op: "LayerNormalization", name: "scale alone", in: []operand{param(2, 3).fed(), param(3), param(3).fixed()}},
	{op: "LayerNormalization", name: "bias alone", in: []operand{param(2, 3).fed(), param(3).fixed(), param(3)}},
	{op: "LayerNormalization", name: "outputs were there", in: []operand{param(2, 4), param(4), param(4)}, outputs: 3, use: []int{0}},

	{op: "RMSNormalization", in: []operand{param(2, 3, 4), param(4)}, opsets: []int64{23}},
	{op: "RMSNormalization", name: "axis 1, epsilon", in: []operand{param(2, 3, 4), param(3, 4)}, attrs: attrs{"axis": 1, "epsilon": 0.1}, opsets: []int64{23}},
	{op: "SimplifiedLayerNormalization", in: []operand{param(2, 3, 4), param(4)}},
	{op: "SimplifiedLayerNormalization", name: "scale alone", in: []operand{param(2, 4).fed(), param(4)}, attrs: attrs{"epsilon": 0.1}},

	{op: "GroupNormalization", name: "scale of each group", in: []operand{param(2, 4, 3), param(2), param(2)}, attrs: attrs{"num_groups": 2}, opsets: []int64{18, 20}},
	{op: "GroupNormalization", name: "scale of each channel", in: []operand{param(2, 4, 2, 2), param(4), param(4)}, attrs: attrs{"num_groups": 2, "epsilon": 0.1}, opsets: []int64{21}},
	{op: "GroupNormalization", name: "one group", in: []operand{param(2, 4, 3), param(4), param(4)}, attrs: attrs{"num_groups": 1}, opsets: []int64{21}},
	{op: "GroupNormalization", name: "one channel in a group", in: []operand{param(2, 3, 4), param(3), param(3)}, attrs: attrs{"num_groups": 3}, opsets: []int64{18, 21}},
	{op: "GroupNormalization", name: "bias alone", in: []operand{param(2, 4, 3).fed(), param(4).fixed(), param(4)}, attrs: attrs{"num_groups": 2}, opsets: []int64{21}},
	{op: "InstanceNormalization", in: []operand{param(2, 3, 2, 3), param(3), param(3)}, opsets: []int64{7, 18, 22}},
	{op: "InstanceNormalization", name: "one axis, epsilon", in: []operand{param(2, 3, 4), param(3), param(3)}, attrs: attrs{"epsilon": 0.1}},

	{op: "LpNormalization", in: []operand{param(2, 3, 4)}, opsets: []int64{7, 18, 22}},
	{op: "LpNormalization", name: "p=1, axis 1", in: []operand{param(2, 3, 4)}, attrs: attrs{"p": 1, "axis": 1}},
	{op: "MeanVarianceNormalization", in: []operand{param(2, 3, 2, 2)}, opsets: []int64{9, 13, 18}},
	{op: "MeanVarianceNormalization", name: "axes", in: []operand{param(2, 3, 4)}, attrs: attrs{"axes": []int64{1, -1}}, opsets: []int64{13}},

	{op: "LRN", in: []operand{param(2, 5, 2, 2)}, attrs: attrs{"size": 3}, opsets: []int64{7, 13, 18}},
	{op: "LRN", name: "even size, constants", in: []operand{param(2, 5, 2)}, attrs: attrs{"size": 4, "alpha": 0.5, "beta": 0.6, "bias": 1.5}},
	{op: "LRN", name: "size beyond the channels", in: []operand{param(1, 2, 3)}, attrs: attrs{"size": 5, "alpha": 0.5}},
	{op: "LRN", name: "size 1", in: []operand{param(1, 3, 2)}, attrs: attrs{"size": 1, "alpha": 0.5}},
}

var softmaxCases = func() []ruleCase {
	var cases []ruleCase
	for _, op := range []string{"Softmax", "LogSoftmax"} {
		cases = append(
			cases,
			ruleCase{op: op, name: "default axis", in: []operand{param(2, 3, 4)}, opsets: []int64{7, 11, 12, 13, 18, 21}},
			ruleCase{op: op, name: "axis 1", in: []operand{param(2, 3, 4)}, attrs: attrs{"axis": 1}, opsets: []int64{7, 11, 13, 18}},
			ruleCase{op: op, name: "axis 0", in: []operand{param(2, 3)}, attrs: attrs{"axis": 0}, opsets: []int64{7, 13, 18}},
			ruleCase{op: op, name: "last axis", in: []operand{param(2, 3, 4)}, attrs: attrs{"axis": 2}, opsets: []int64{7, 13, 18}},
			ruleCase{op: op, name: "axis -2", in: []operand{param(2, 3, 4)}, attrs: attrs{"axis": -2}, opsets: []int64{11, 13, 18}},
		)
	}
	return cases
}()

var lossCases = func() []ruleCase {
	var cases []ruleCase
	for _, reduction := range []string{"mean", "sum", "none"} {
		a := attrs{"reduction": reduction}
		cases = append(
			cases,
			ruleCase{op: "SoftmaxCrossEntropyLoss", name: reduction, in: []operand{param(3, 4), indices([]int{3}, 0, 3, 1)}, attrs: a, opsets: []int64{12, 13, 18}},
			ruleCase{op: "SoftmaxCrossEntropyLoss", name: reduction + ", weights", in: []operand{param(3, 4), indices([]int{3}, 0, 3, 1), param(4).in(0.5, 2).fed()}, attrs: a},
			ruleCase{op: "SoftmaxCrossEntropyLoss", name: reduction + ", log_prob as well", in: []operand{param(3, 4), indices([]int{3}, 0, 3, 1)}, attrs: a, outputs: 2},
			ruleCase{op: "SoftmaxCrossEntropyLoss", name: reduction + ", log_prob alone", in: []operand{param(3, 4), indices([]int{3}, 0, 3, 1)}, attrs: a, outputs: 2, use: []int{1}},
			ruleCase{op: "SoftmaxCrossEntropyLoss", name: reduction + ", ignored", in: []operand{param(3, 4), indices([]int{3}, 0, 3, 1)}, attrs: attrs{"reduction": reduction, "ignore_index": 3}},
			ruleCase{op: "SoftmaxCrossEntropyLoss", name: reduction + ", ignored beyond the classes, weights", in: []operand{param(2, 3, 2), indices([]int{2, 2}, 0, -100, 1, 2), param(3).in(0.5, 2).fixed()}, attrs: attrs{"reduction": reduction, "ignore_index": -100}},
			ruleCase{op: "NegativeLogLikelihoodLoss", name: reduction, in: []operand{param(3, 4), indices([]int{3}, 0, 3, 1)}, attrs: a, opsets: []int64{12, 13, 18, 22}},
			ruleCase{op: "NegativeLogLikelihoodLoss", name: reduction + ", image, weights", in: []operand{param(2, 3, 2, 1), indices([]int{2, 2, 1}, 0, 1, 2, 1), param(3).in(0.5, 2).fed()}, attrs: a},
			ruleCase{op: "NegativeLogLikelihoodLoss", name: reduction + ", ignored", in: []operand{param(3, 4), indices([]int{3}, 0, 3, 1)}, attrs: attrs{"reduction": reduction, "ignore_index": 3}},
			ruleCase{op: "NegativeLogLikelihoodLoss", name: reduction + ", ignored, weights", in: []operand{param(2, 3, 2), indices([]int{2, 2}, 0, -1, 1, 2), param(3).in(0.5, 2).fed()}, attrs: attrs{"reduction": reduction, "ignore_index": -1}},
			ruleCase{op: "SoftmaxCrossEntropyLoss", name: reduction + ", image", in: []operand{param(2, 3, 2, 2), indices([]int{2, 2, 2}, 0, 1, 2, 0, 1, 1, 2, 2)}, attrs: a},
		)
	}
	return cases
}()
