#!/bin/sh
# container.sh ROOT CGROUP BOOT-ID: the first process of a container, in namespaces of its own for mounts, processes, network,
# names and IPC. It makes the machine of them, and becomes its systemd.
set -e
root=$1 cgroup=$2 boot=$3

# The whole of a hierarchy is the container's.
if [ -z "$inside" ]; then
	echo 0 >"$cgroup/cgroup.procs"
	inside=yes exec unshare --cgroup sh "$0" "$@"
fi
mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
mount -t proc -o nosuid,nodev,noexec proc proc
# Settings that are not of the network are the host's.
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount --bind proc/sys/net proc/sys/net
mount -o remount,bind,rw proc/sys/net
if [ -e proc/sysrq-trigger ]; then
	mount --bind proc/sysrq-trigger proc/sysrq-trigger
	mount -o remount,bind,ro proc/sysrq-trigger
fi
mount -t sysfs -o nosuid,nodev,noexec sysfs sys
mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 sys/fs/cgroup
mount -t bpf -o nosuid,nodev,noexec,mode=700 bpf sys/fs/bpf
mount -t tmpfs -o nosuid,nodev,mode=755 tmpfs run
mount -t tmpfs -o nosuid,mode=755 tmpfs dev
mkdir dev/pts dev/shm
while read -r name major minor; do
	mknod -m 666 "dev/$name" c "$major" "$minor"
done <<'END'
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
END
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts dev/pts
mount -t tmpfs -o nosuid,nodev tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
echo "$boot" >run/boot_id
mount --bind run/boot_id proc/sys/kernel/random/boot_id
hostname vm
pivot_root . .
umount -l .
# Systemd gives services mounts, as those of credentials, by propagation, and leaves it to the machine to allow that.
mount --make-rshared /
# Modules and the clock are the host's too.
exec env -i container=selvage PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot . setpriv --bounding-set -sys_module,-sys_time,-sys_rawio /usr/lib/systemd/systemd
