package autodiff

import "slices"

// recurrentCases have 3 steps, a batch of 2, 2 features and 2 units.
var recurrentCases = func() []ruleCase {
	var cases []ruleCase
	for op, gates := range map[string]int{"RNN": 1, "GRU": 3, "LSTM": 4} {
		weights := func(directions int) []operand {
			return []operand{param(3, 2, 2), param(directions, gates*2, 2), param(directions, gates*2, 2)}
		}
		bias := func(directions int) []operand { return append(weights(directions), param(directions, 2*gates*2)) }
		initial := func(directions int) []operand { return append(bias(directions), omitted, param(directions, 2, 2)) }
		outputs := 2
		all := initial(1)
		if op == "LSTM" {
			outputs = 3
			all = append(all, param(1, 2, 2), param(1, 3*2))
		}
		size := attrs{"hidden_size": 2}
		with := func(a attrs) attrs { a["hidden_size"] = 2; return a }
		transposed := bias(1)
		transposed[0] = param(2, 3, 2)
		cases = append(
			cases,
			ruleCase{op: op, name: "weights", in: weights(1), attrs: size, opsets: []int64{7, 14, 18, 22}},
			ruleCase{op: op, name: "bias", in: bias(1), attrs: size, outputs: outputs},
			ruleCase{op: op, name: "everything", in: all, attrs: size, outputs: outputs},
			ruleCase{op: op, name: "reverse", in: bias(1), attrs: with(attrs{"direction": "reverse"}), outputs: outputs},
			ruleCase{op: op, name: "both directions", in: initial(2), attrs: with(attrs{"direction": "bidirectional"}), outputs: outputs},
			ruleCase{op: op, name: "last state alone", in: bias(1), attrs: size, outputs: outputs, use: []int{1}},
			ruleCase{op: op, name: "batch first", in: transposed, attrs: with(attrs{"layout": 1}), outputs: outputs},
			ruleCase{op: op, rule: "Scan", name: "a Scan, everything", in: longer(all), attrs: size, outputs: outputs},
			ruleCase{op: op, rule: "Scan", name: "a Scan, both directions", in: longer(initial(2)), attrs: with(attrs{"direction": "bidirectional"}), outputs: outputs},
			ruleCase{op: op, rule: "Scan", name: "a Scan, reverse", in: longer(bias(1)), attrs: with(attrs{"direction": "reverse"}), outputs: outputs},
			ruleCase{op: op, rule: "Scan", name: "a Scan, last state alone", in: longer(bias(1)), attrs: size, outputs: outputs, use: []int{1}},
			ruleCase{op: op, rule: "Scan", name: "a Scan, weights of W alone", in: longer([]operand{param(3, 2, 2).fed(), param(1, gates*2, 2), param(1, gates*2, 2).fixed()}), attrs: size},
			ruleCase{op: op, name: "weights of W alone", in: []operand{param(3, 2, 2).fed(), param(1, gates*2, 2), param(1, gates*2, 2).fixed()}, attrs: size},
		)
	}
	lstm := func() []operand { return []operand{param(3, 2, 2), param(1, 8, 2), param(1, 8, 2), param(1, 16)} }
	gru := func() []operand { return []operand{param(3, 2, 2), param(1, 6, 2), param(1, 6, 2), param(1, 12)} }
	return append(
		cases,
		ruleCase{op: "GRU", name: "linear before reset", in: gru(), attrs: attrs{"hidden_size": 2, "linear_before_reset": 1}, outputs: 2},
		ruleCase{op: "GRU", rule: "Scan", name: "a Scan, linear before reset", in: longer(gru()), attrs: attrs{"hidden_size": 2, "linear_before_reset": 1}, outputs: 2},
		ruleCase{op: "LSTM", rule: "Scan", name: "a Scan, state alone", in: longer(lstm()), attrs: attrs{"hidden_size": 2}, outputs: 3, use: []int{2}},
		ruleCase{op: "GRU", name: "activations", in: gru(), attrs: attrs{"hidden_size": 2, "activations": []string{"Softsign", "Softplus"}}, outputs: 2},
		ruleCase{op: "LSTM", name: "coupled gates", in: lstm(), attrs: attrs{"hidden_size": 2, "input_forget": 1}, outputs: 3},
		ruleCase{op: "LSTM", name: "state alone", in: lstm(), attrs: attrs{"hidden_size": 2}, outputs: 3, use: []int{2}},
		ruleCase{op: "LSTM", name: "activations", in: lstm(), attrs: attrs{"hidden_size": 2, "activations": []string{"Sigmoid", "Softsign", "Tanh"}}, outputs: 3},
		ruleCase{op: "LSTM", name: "all samples are full", in: append(lstm(), list32(3, 3)), attrs: attrs{"hidden_size": 2}, outputs: 3},
	)
}()

// longer gives input 0 more steps than are unrolled.
func longer(in []operand) []operand {
	in = slices.Clone(in)
	in[0].shape = append([]int{mostUnrolled + 2}, in[0].shape[1:]...)
	return in
}
