// Package libvirt tests the hook of deploy/libvirt: called as libvirt calls it, and by libvirtd itself with a guest.
//
// Its one invariant: testdata/start.xml is what libvirt 9.0 gave a hook for deploy/libvirt/guest.xml.
// Do not use it for live objects themselves.
package libvirt
