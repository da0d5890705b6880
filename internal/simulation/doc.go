// Package simulation runs the whole control plane of an edge in virtual time, on a model of the
// kernel, and checks what it made of it.
//
// Its one invariant: everything that happens comes from a seed, so that a failing one can be
// made short and run again. The reference that it checks against shares no code with the edge:
// it reads the bytes of the maps.
//
// Do not test packets here: programs do nothing in the model.
package simulation
