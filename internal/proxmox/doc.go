// Package proxmox reads the software-defined network of a Proxmox VE cluster (/etc/pve/sdn) and writes the
// configuration of an edge that takes part in it, as a member of its EVPN and VXLAN zones or as an exit node.
//
// Its one invariant: what a file says is carried over, or is among the notes, or is an error with its line. Nothing
// is left out in silence.
//
// Do not use it to speak with Proxmox's API, nor to write what Proxmox reads.
package proxmox
