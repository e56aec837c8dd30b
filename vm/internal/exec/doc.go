// Package exec runs a program: it lays out a session's memory, makes frames and steps of the graph,
// lowers them to tasks, and runs these on gorgonia's tape machine, on the cores or on a device.
package exec
