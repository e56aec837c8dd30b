module gorgonia.org/cu

go 1.26.0
