// Package proxmox tests an edge in an EVPN zone of Proxmox VE: nodes whose FRR runs the text that Proxmox writes
// for them, over the devices that ifupdown2 makes of /etc/network/interfaces.d/sdn.
//
// Its one invariant: the configuration of the edge comes out of selvage import proxmox, from the files that the
// text for the nodes follows too. Do not use it for the meaning of EVPN routes: that is test/e2e/evpn.
package proxmox
