package exec

func init() { alwaysChecks = true }
