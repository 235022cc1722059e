#!/bin/sh
# First process of a kernel that kexec brought: its modules, then the disk.
busybox=/bin/busybox
$busybox mount -t devtmpfs dev /dev
while read -r module; do $busybox insmod "/modules/$module"; done </modules/order
$busybox mount -t ext4 /dev/vda /mnt && exec $busybox switch_root /mnt /enter
$busybox reboot -f
