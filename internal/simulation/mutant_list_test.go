package simulation

var mutants []mutant
