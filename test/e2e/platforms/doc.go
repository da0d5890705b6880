// Package platforms tests the files of deploy/ for what makes interfaces and hosts: systemd-networkd, Incus,
// cloud-init and Ansible, each with the program that reads them, and with a real edge.
//
// Its one invariant: the files are read from deploy/ as they are; where a test changes one, that is an address or a
// name of the network that it runs in. Do not use it for libvirt and Proxmox: those have packages of their own.
package platforms
