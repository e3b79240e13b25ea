#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# The first process of the guest. It mounts the host's root, read-only, under an overlay in memory, makes soft-RoCE
# devices, runs the one command that lies in the shared folder, and powers off. tests/guest/guest.py starts it and reads
# what it leaves in that folder: booted, stdout, stderr, rc.
/bin/busybox mkdir -p /bin /proc /sys /dev /host /over /share /root
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev

give_up() {
  echo "guest: $*"
  poweroff -f
}

for module in virtio_pci virtio_net 9pnet_virtio 9p overlay crc32c_generic crc32_generic; do
  modprobe "$module" || give_up "cannot load $module"
done

far=trans=virtio,version=9p2000.L,msize=524288
mount -t 9p -o "ro,cache=loose,$far" host /host || give_up "cannot mount the host's root"
mount -t tmpfs -o size=50% tmpfs /over
mkdir /over/up /over/work
mount -t overlay -o lowerdir=/host,upperdir=/over/up,workdir=/over/work overlay /root || give_up "cannot mount the overlay"
for where in proc sys dev; do
  mkdir -p "/root/$where"
  mount --move "/$where" "/root/$where"
done
mkdir -p /root/dev/shm /root/dev/pts /root/share
mount -t tmpfs tmpfs /root/dev/shm
mount -t devpts devpts /root/dev/pts
mount -t tmpfs tmpfs /root/run
mount -t 9p -o "cache=none,$far" share /root/share || give_up "cannot mount the shared folder"
mkdir -p /root/lib/modules
mount --bind /lib/modules /root/lib/modules
ln -sf /proc/self/fd /root/dev/fd

# One device for each network device: rxe0 has a link, with packets as large as any; rxe1 has none; rxe2 has one with
# packets of 1024 bytes.
hostname guest
for module in rdma_rxe ib_uverbs rdma_ucm dummy veth; do
  modprobe "$module" || give_up "cannot load $module"
done
# What this machine may not have, for the tests of tcp and sctp: those say what is missing.
for module in aesni_intel ghash_clmulni_intel ctr gcm tls sctp; do
  modprobe "$module" || echo "guest: no $module"
done
ip link set lo up
ip link set eth0 mtu 4500 up
ip address add "$(cat /root/share/address)" dev eth0
ip link add down0 type dummy
ip link add small0 type dummy
ip link set small0 mtu 1500 up
number=0
for netdev in eth0 down0 small0; do
  chroot /root rdma link add "rxe$number" type rxe netdev "$netdev" || give_up "cannot make rxe$number on $netdev"
  number=$((number + 1))
done

chmod 666 /root/dev/infiniband/*

echo > /root/share/booted
chroot /root /bin/sh /share/command > /root/share/stdout 2> /root/share/stderr
echo $? > /root/share/rc.part
mv /root/share/rc.part /root/share/rc
sync
poweroff -f
