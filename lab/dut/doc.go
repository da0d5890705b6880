// Package dut has the data paths that the lab compares, each for the topology that it forwards in:
// Linux, Open vSwitch, FRR, Selvage, and bare redirects as the limit of the machine.
//
// Its one invariant: what a data path starts stops with its lab, and it carries traffic when it is
// handed on. It knows no experiment. Do not use it to set up a host that is not a lab's.
package dut
