// Package qemu tests on kernels of Debian in virtual machines, with drivers of network cards that QEMU has: what the doctor
// says of them, changes to their settings and the way back, XDP in the drivers, RFC 2544 between their interfaces, and which kernels
// are refused.
//
// Its one invariant: it tests what is right, never how fast, as the processor may be emulated. It is in make test-long
// alone; machines are those of test/debian.
package qemu
