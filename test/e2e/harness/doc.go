// Package harness is what the end-to-end tests have in common: networks of namespaces with
// edges in them, facts about them, probes through them and captures of them. The tests run
// the program as its users do, with real programs and real peers (the kernel's vxlan device,
// Open vSwitch, FRR) behind it; each folder beside this one is a subject:
//
//	bridge    switching, encapsulations and their peers, trunks, taps, spoofing
//	underlay  MTUs, offloads, several TEPs and their failures, uplinks with tags
//	gateway   routing between segments and to the outside
//	firewall  policies and connection tracking
//	nat       what translation does to conversations
//	egress    gateways to the outside as a group: failover, policies, drains
//	evpn      BGP EVPN with FRR and the kernel
//	transit   the XDP path between tunnels and uplinks
//	ops       commands, configuration, metrics, the doctor, restarts
//	monitoring what Prometheus and dashboards of Grafana see, and memory of tables
//
// Its one invariant: a test is facts in order, each waited for and named when it
// does not hold; then the topology is printed and a capture of every link kept.
// What can be tested on one packet belongs into internal/datapath.
//
// SELVAGE_TEST_BINARY names a selvage that is built already; else each package builds one.
// SELVAGE_TEST_CAPTURE has all links captured from the start; else what fails is done once more
// under captures.
//
// What only one subject needs stays in its folder. The packages run side by side, also with
// themselves: nothing that they make has a name that is not unique on the machine.
package harness
