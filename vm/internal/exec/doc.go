// Package exec runs a program: it lays out a session's memory, has its graph lowered to tasks
// (package lower), and runs these on gorgonia's tape machine, on the cores or on a device. It also
// has what looks at runs: profiles, poison, guards, and the comparison with an evaluator.
package exec
