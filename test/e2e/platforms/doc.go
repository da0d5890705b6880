// Package platforms runs the Ansible role of deploy/ansible with Ansible, against a host with a real edge.
//
// Its one invariant: the role is read from deploy/ as it is. Do not use it for libvirt and Proxmox: those have
// packages of their own.
package platforms
