#!/bin/bash
# Makes a root of its own over that of this machine, and becomes systemd in it: `boot.sh FOLDER`.
#
# machine.py runs it as the first process of new namespaces. Changes go to a tmpfs over the root, which ends with the
# namespaces. pivot_root instead of chroot: the kernel allows no user namespaces in a chroot, and the service has one.
set -eu

work=$1
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$work"
mkdir "$work"/{upper,work,root}
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root"
cd "$work/root"

mount -t proc proc proc
# Settings of the kernel belong to the machine outside, except those of the network.
mount --bind proc/sys/net proc/sys/net
mount --rbind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do
  touch "dev/$device"
  mount --bind "/dev/$device" "dev/$device"
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd

# No unit of the machine outside, and none that sets up hardware or file systems, or empties /tmp.
rm -rf etc/systemd/system
mkdir etc/systemd/system
for unit in systemd-{remount-fs,sysctl,modules-load,tmpfiles-setup,udevd,networkd,resolved,timesyncd,logind}.service tmp.mount; do
  ln -s /dev/null "etc/systemd/system/$unit"
done

mkdir run/outside
pivot_root . run/outside
umount --lazy /run/outside
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --system --unit=basic.target --log-target=journal --show-status=no
