#!/bin/sh
# First process of the guest: mounts what Windhover reads and writes, loads the modules, runs the tests that the kernel
# command line names, tells how they ended on the second serial port and powers off.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs -o mode=755 run /run
mount -t tracefs tracefs /sys/kernel/tracing
mount -t debugfs debugfs /sys/kernel/debug
# As systemd leaves it: cgroup version 2 only, and no controller given to the children yet.
mount -t cgroup2 cgroup2 /sys/fs/cgroup
while read -r module; do insmod "/modules/$module"; done </modules/order
/usr/bin/ip link set lo up

tests= limit=120
for word in $(cat /proc/cmdline); do
    case $word in
    windhover.tests=*) tests=$(echo "${word#*=}" | tr , ' ') ;;
    windhover.limit=*) limit=${word#*=} ;;
    esac
done
# A guest whose host has gone away ends by itself.
(sleep "$limit" && poweroff -f) &

echo "guest: up after $(cut -d' ' -f1 /proc/uptime) s: $(uname -r), $(nproc) CPUs, $(cat /proc/cmdline)" >/dev/ttyS1
cd /root || exit
# shellcheck disable=SC2086
/usr/bin/guest-tests --ignored --test-threads=1 --nocapture $tests </dev/null >/dev/ttyS1 2>&1
echo "guest: tests ended with $? after $(cut -d' ' -f1 /proc/uptime) s" >/dev/ttyS1
poweroff -f
