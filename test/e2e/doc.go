// Package e2e tests the program as its users run it: edges in network
// namespaces, with real programs and real peers (the kernel's vxlan device, Open
// vSwitch) behind them.
//
// Its one invariant: a test is facts in order, each waited for and named when it
// does not hold; then the topology is printed and a capture of every link kept.
// What can be tested on one packet belongs into internal/datapath.
package e2e
