// Package ilp has integer programs as plain data, and writes them in the formats that
// solvers read. What builds programs (schedule for an order, alloc for offsets) and what
// solves them know only this package, and not one another.
//
//	program.go  Program: columns (variables) and rows (linear constraints), and the check
//	            of a solution in integers
//	lp.go       CPLEX's LP format, for people and nearly every solver
//	mps.go      free MPS, for every solver
//	cpsat.go    CpModelProto, for CP-SAT of OR-tools
//	packing.go  Packing: rectangles whose steps are fixed, for solvers that have a constraint
//	            for them; cpsat_packing.go writes it for CP-SAT
//	solve.go    Solver: what solves programs, and the check of its answers
//
// All data are integers. The text formats write them exactly; most solvers read them into
// floating point, which is exact below 2^53 = 9,007,199,254,740,992. They also let each row be
// violated by a tolerance, often a millionth, which is many units where a coefficient is as
// large as an arena: [Program.Value] finds out whether what they return is a solution. CP-SAT
// computes in integers.
package ilp
